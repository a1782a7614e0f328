// Plans: a model, a batch and a device become a table of bytes and a chart over batches.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { browser, closePage, openPage, service, shot, stage } from './service.mjs';


await stage();

const open = (view) => openPage(browser, service, view);

test('a model is planned for a device', async () => {
  const page = await open('');
  await page.getByRole('link', { name: 'Plan', exact: true }).click();
  assert.equal(await page.locator('h1').innerText(), 'Does it fit?');
  await page.getByLabel('Model').selectOption('gpt2');
  await page.getByRole('spinbutton', { name: 'Batch' }).fill('16');
  await page.getByLabel('Device').selectOption('t4');
  await page.getByRole('button', { name: 'Plan' }).click();
  await page.getByRole('heading', { name: 'It fits' }).waitFor();
  assert.match(page.url(), /#\/plan\?model=gpt2&batch=16&device=t4&optimizer=adamw/);
  const bytes = page.getByRole('region', { name: 'What takes how much' });
  // two moments in float32 of 124,439,808 parameters
  assert.match(await bytes.innerText(), /Optimizer states\s+949 MiB/);
  assert.equal(await page.locator('canvas').count(), 1);
  const rates = page.getByRole('region', { name: 'Samples a second over batch' });
  assert.ok((await rates.locator('tbody tr').count()) > 4);
  await shot(page, 'plan');
  await page.getByRole('link', { name: /GiB/ }).click();
  await page.waitForURL(/#\/schedule\/[0-9a-f]{64}/);
  await closePage(page);
});

test('what does not fit says so, and an address is a plan', async () => {
  const page = await open('#/plan?model=gpt2-xl&batch=8&device=rtx4090&optimizer=adamw');
  await page.getByRole('heading', { name: 'It does not fit' }).waitFor();
  await page.getByText('take the whole device').waitFor();
  assert.equal(await page.getByLabel('Optimizer').inputValue(), 'adamw');
  assert.equal(await page.getByLabel('Model').inputValue(), 'gpt2-xl');
  await closePage(page);
});

test('a pipeline is drawn, and each rank leads to its schedule', async () => {
  const page = await open('#/plan?model=gpt2&batch=16&device=t4&optimizer=adamw');
  await page.getByLabel('Ranks share by').selectOption('pipeline');
  await page.getByRole('spinbutton', { name: 'Ranks' }).fill('4');
  await page.getByRole('spinbutton', { name: 'Micro-batches' }).fill('8');
  await page.getByRole('button', { name: 'Plan' }).click();
  await page.getByRole('link', { name: 'Rank 3' }).waitFor();
  assert.match(page.url(), /parallel=pipeline&ranks=4&microbatches=8&replicas=1&schedule=1f1b&runtime=pytorch/);
  const ranks = page.getByRole('region', { name: 'Ranks' });
  assert.equal(await ranks.locator('tbody tr').count(), 4);
  await shot(page, 'pipeline');
  // under the pointer: the first box of the first rank, then what follows a micro-batch
  const drawing = page.locator('canvas[data-name=draw-pipeline]');
  await drawing.hover({ position: { x: 90, y: 14 } });
  await page.getByText(/^Rank 0, micro-batch 0, forward: from 0 s to /).waitFor();
  const whole = await drawing.screenshot();
  await drawing.focus();
  for (let k = 0; k < 4; k++) await page.keyboard.press('+');
  await drawing.hover({ position: { x: 90, y: 120 } });
  assert.notDeepEqual(await drawing.screenshot(), whole);
  await shot(page, 'pipeline-near');
  await page.keyboard.press('0');
  await page.getByRole('link', { name: 'Rank 2' }).click();
  await page.waitForURL(/#\/schedule\/[0-9a-f]{64}/);
  await page.getByText(/^\d+ micro-batches, each holding [\d.]+ [KMG]iB$/).waitFor();
  await page.goBack();
  await drawing.click({ position: { x: 90, y: 14 } });
  await page.waitForURL(/#\/schedule\/[0-9a-f]{64}/);
  await closePage(page);
});

test('what a pipeline lacks is said by rank', async () => {
  const page = await open(
    '#/plan?model=gpt2&batch=64&device=t4&optimizer=adamw&parallel=pipeline&ranks=4&microbatches=8&schedule=gpipe&runtime=megatron',
  );
  await page.getByRole('heading', { name: 'It does not fit' }).waitFor();
  assert.equal(await page.getByLabel('Order').inputValue(), 'gpipe');
  const ways = page.getByRole('region', { name: 'Other ways' });
  assert.match(await ways.innerText(), /every block runs again.*no: rank \d lacks [\d.]+ [GM]iB/);
  assert.equal(await page.locator('canvas').count(), 0);
  await closePage(page);
});

test('what the command has, the form has', async () => {
  const page = await open('#/plan?model=gpt2&batch=4&device=t4&optimizer=adamw');
  await page.getByRole('img', { name: 'The device, by what takes it' }).waitFor();
  const ways = page.getByRole('region', { name: 'By ways that people use' });
  assert.match(await ways.innerText(), /per-block checkpointing\s+[\d.]+ [MG]iB\s+[\d.]+ GiB\s+[\d.]+ m?s\s+yes/);
  for (const title of ['Sizes', 'Precision and kernels', 'Ranks and memory', 'Several side by side'])
    await page.getByText(title, { exact: true }).click();
  await page.locator('input[name=layers]').fill('3');
  await page.locator('select[name=precision]').selectOption('float32');
  await page.getByLabel('Memory, in place').fill('6GiB');
  await page.getByLabel('Gradients stay').check();
  await page.getByLabel('No table over batches').check();
  await page.getByLabel('May offload to the host').check();
  await page.locator('select[name=beside]').selectOption(['h100', 'rtx4090']);
  await page.getByRole('button', { name: 'Plan' }).click();
  const devices = page.getByRole('region', { name: 'On several devices' });
  await devices.waitFor();
  assert.equal(await devices.locator('tbody tr').count(), 3);
  assert.match(await devices.innerText(), /t4\s+yes\s+[\d.]+ [MG]iB of 6\.00 GiB/);
  assert.match(await ways.innerText(), /inputs at the host/);
  assert.match(page.url(), /layers=3.*precision=float32.*keep_gradients=yes.*device_memory=6GiB.*beside=h100%2Crtx4090/);
  await closePage(page);
});

test('a config.json and an interleaved pipeline are planned', async () => {
  const config = { model_type: 'bloom', hidden_size: 1024, n_layer: 24, n_head: 16, vocab_size: 250880 };
  const page = await open(`#/plan?${new URLSearchParams({ config: JSON.stringify(config), model: 'gpt2', batch: '1', device: 'h100' })}`);
  await page.getByText('559,214,592').waitFor();
  await page.goto(`${page.url().split('#')[0]}#/plan?model=gpt2&batch=4&device=t4&parallel=pipeline&ranks=2&microbatches=4&schedule=interleaved&parallel.chunks=3`);
  await page.getByText('nothing runs again').first().waitFor();
  assert.equal(await page.locator('canvas').count(), 0);
  await closePage(page);
});
