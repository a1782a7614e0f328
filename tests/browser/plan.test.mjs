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
