// What a user does: post, look, ask, watch, cancel, read, step, compare, download, follow links.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { browser, closePage, largeProfile, openPage, profileText, Service, service, shot, stage } from './service.mjs';


await stage('--workers', '1');

const open = (view, options) => openPage(browser, service, view, options);
const heading = (page) => page.locator('h1').innerText();

test('a profile is posted, searched, sorted and opened', async () => {
  for (const name of ['gpt.flops', 'unet.flops', 'vgg19.chain']) await service.push(name);
  const page = await open('');
  await page.getByText('3 profiles').waitFor();
  await page.getByLabel('Post a profile').setInputFiles({
    name: 'a.json',
    mimeType: 'application/json',
    buffer: Buffer.from(profileText('resnet50.chain')),
  });
  await page.waitForURL(/#\/profile\/[0-9a-f]{64}\/curve/);
  assert.equal(await heading(page), 'resnet50-b96.chain', 'what is posted is opened');
  await page.getByRole('link', { name: 'Profiles' }).first().click();
  await page.getByText('4 profiles').waitFor();
  await page.getByRole('button', { name: 'Nodes' }).click();
  const names = () => page.locator('tbody tr td:first-child').allInnerTexts();
  assert.deepEqual((await names()).slice(0, 2), ['resnet50-b96.chain', 'vgg19-b64.chain']);
  await page.getByRole('button', { name: 'Nodes' }).click();
  assert.equal((await names())[0], 'gpt-b8.flops');
  await page.reload();
  await page.getByText('4 profiles').waitFor();
  assert.equal((await names())[0], 'gpt-b8.flops', 'the order is in the address');
  await page.getByLabel('Search by name').fill('unet');
  await page.getByText('1 profile of that name').waitFor();
  assert.match(page.url(), /name=unet/);
  await shot(page, 'profiles');
  await page.getByRole('link', { name: 'unet-b8.flops' }).click();
  await page.getByText('store-all peak').waitFor();
  assert.equal(await heading(page), 'unet-b8.flops');
  await closePage(page);
});

test('a dropped file that is refused shows the field to blame', async () => {
  const page = await open('', { refusals: [400] });
  const bad = JSON.parse(profileText('vgg19.chain'));
  bad.nodes[3].forward_time = -1;
  const data = await page.evaluateHandle((text) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], 'bad.json', { type: 'application/json' }));
    return transfer;
  }, JSON.stringify(bad));
  await page.dispatchEvent('body', 'drop', { dataTransfer: data });
  const alert = page.getByRole('alert');
  await alert.waitFor();
  assert.equal(await alert.locator('code.field').innerText(), 'nodes[3].forward_time');
  assert.equal(await alert.locator('.excerpt .bad').innerText(), '"forward_time": -1');
  await shot(page, 'refused');
  await closePage(page);
});

test('a graph is drawn, a node told, the costs are a table', async () => {
  const id = await service.push('unet.flops');
  const page = await open(`#/profile/${id}/graph`);
  const canvas = page.locator('canvas');
  await canvas.waitFor();
  await page.getByLabel('Colour by').selectOption({ label: 'output bytes' });
  assert.match(page.url(), /by=output\+bytes/);
  await shot(page, 'graph');
  /* somewhere along the rows of nodes there is one to press */
  const box = await canvas.boundingBox();
  const told = page.locator('.node h2');
  for (let x = 20; x < box.width && !(await told.isVisible()); x += 20)
    await page.mouse.click(box.x + x, box.y + box.height / 2);
  assert.ok(await told.isVisible());
  assert.match(page.url(), /node=\d+/);
  const name = await told.innerText();
  await page.reload();
  assert.equal(await told.innerText(), name, 'the node is in the address');
  await page.getByRole('link', { name: 'Costs' }).click();
  const costs = page.getByRole('region', { name: 'Costs of the nodes' });
  await costs.waitFor();
  const node = JSON.parse(profileText('unet.flops')).nodes[0];
  assert.equal(await costs.locator('tbody tr').first().locator('td').nth(1).innerText(), node.id);
  await closePage(page);
});

test('a schedule is asked for by slider and solver', async () => {
  const id = await service.push('resnet50.chain');
  const page = await open(`#/profile/${id}/ask`);
  await page.getByRole('combobox', { name: 'Solver' }).selectOption('rotor');
  await page.getByText('over storing everything (rotor)').waitFor();
  const slider = page.getByRole('slider');
  await slider.focus();
  await page.keyboard.press('Home');
  const least = await slider.getAttribute('aria-valuetext');
  const points = await service.post('v1/tradeoffs', { profile_id: id, solver: 'rotor', points: 2 });
  assert.match(least, new RegExp(`^${(points[0].budget / 2 ** 30).toFixed(2)} GiB`));
  await page.getByLabel('Bytes,').fill('50%');
  await shot(page, 'ask');
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await page.waitForURL(/#\/schedule\//);
  assert.equal(await heading(page), '3.89 GiB by rotor');
  await closePage(page);
});

/** Asks for the least budget that a refusal names; one that took a while is a job's, and leads back to the question. */
async function askInstead(page) {
  const instead = page.getByText(/^Ask for .* instead$/);
  await instead.waitFor();
  const late = /#\/job\//.test(page.url());
  await instead.click();
  if (late) await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await page.waitForURL(/#\/schedule\//);
}

test('a budget that is too small is refused with the one that would do', async () => {
  const id = await service.push('resnet50.chain');
  const page = await open(`#/profile/${id}/ask?solver=rotor&budget=1GiB`, { refusals: [422] });
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await page.getByRole('alert').waitFor();
  await askInstead(page);
  await closePage(page);
});

test('auto is asked with an effort, and its refusal leads on', async () => {
  const id = await service.push('vgg19.chain');
  const page = await open(`#/profile/${id}/ask?budget=1MiB`, { refusals: [422] });
  const effort = page.getByRole('combobox', { name: 'Effort' });
  assert.equal(await effort.inputValue(), 'quick');
  await effort.selectOption('thorough');
  assert.match(page.url(), /effort=thorough/);
  await page.reload();
  assert.equal(await effort.inputValue(), 'thorough', 'the effort is in the address');
  const solver = page.getByRole('combobox', { name: 'Solver' });
  await solver.selectOption('rotor');
  assert.equal(await effort.count(), 0, 'rotor takes none');
  await solver.selectOption('auto');
  const asked = page.waitForRequest('**/v1/schedules');
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  assert.equal((await asked).postDataJSON().effort, 'thorough');
  await askInstead(page);
  await closePage(page);
});

/** A question that takes longer than the page waits for an answer: a large table for one worker. */
async function slowQuestion(n) {
  const profile = largeProfile('chain', n, `slow ${n}`);
  const { profile_id } = await service.post('v1/profiles', profile);
  return `#/profile/${profile_id}/ask?solver=rotor&budget=50%25`;
}

async function askSlowly(page) {
  await page.getByLabel(/^slots:/).fill('2000');
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await page.waitForURL(/#\/job\//);
}

test('progress is watched live, the end opens the schedule', async () => {
  const page = await open(await slowQuestion(400));
  await askSlowly(page);
  const seen = new Set();
  while (/#\/job\//.test(page.url())) {
    const value = await page
      .locator('progress')
      .getAttribute('value', { timeout: 500 })
      .catch(() => null);
    if (value !== null) seen.add(Number(value));
    await page.waitForTimeout(50);
  }
  assert.ok(
    [...seen].some((value) => value > 0 && value < 1),
    `progress was seen: ${[...seen]}`,
  );
  await page.waitForURL(/#\/schedule\//);
  await page.getByText('solved in').waitFor();
  await closePage(page);
});

test('a solve is cancelled', async () => {
  const page = await open(await slowQuestion(500));
  await askSlowly(page);
  await page.getByRole('button', { name: 'Cancel the solve' }).click();
  await page.getByRole('status').filter({ hasText: 'cancelled' }).waitFor();
  const id = /job\/([0-9a-f]{32})/.exec(page.url())[1];
  assert.equal((await service.call('GET', `v1/jobs/${id}`)).state, 'cancelled');
  await shot(page, 'job');
  await closePage(page);
});

test('the curve has the numbers of the service, and a point opens its schedule', async () => {
  const id = await service.push('vgg19.chain');
  const page = await open(`#/profile/${id}/curve?solvers=rotor,chen-sqrt`);
  await page.locator('.u-over').waitFor();
  const table = page.getByRole('region', { name: 'Points of the curve' });
  await table.waitFor();
  const [points, others] = [
    await service.post('v1/tradeoffs', { profile_id: id, solver: 'rotor', points: 60 }),
    await service.post('v1/tradeoffs', { profile_id: id, solver: 'chen-sqrt', points: 60 }),
  ];
  const first = table.locator('tbody tr').first().locator('td');
  assert.equal(await first.nth(0).innerText(), 'rotor');
  assert.equal(await first.nth(4).innerText(), `${Number((points[0].makespan / 1000).toPrecision(4))} ms`);
  /* one bound of all: the largest that is known at the budget or above it */
  const known = [...points, ...others].filter((point) => point.feasible && point.budget >= points[0].budget);
  const bound = Math.max(...known.map((point) => point.lower_bound));
  assert.equal(await first.nth(6).innerText(), `${Number((bound / 1000).toPrecision(4))} ms`);
  await shot(page, 'curve');
  await page.waitForURL(/budget=/); /* said a moment after the curve is there, and drawn anew with it */
  const over = await page.locator('.u-over').boundingBox();
  await page.mouse.move(over.x + over.width / 2, over.y + over.height / 2);
  await page.mouse.click(over.x + over.width / 2, over.y + over.height / 2);
  await page.waitForURL(/#\/schedule\//);
  await page.getByText('solved in').waitFor();
  await page.goBack();
  await page
    .getByRole('button', { name: /Open the schedule of rotor/ })
    .nth(5)
    .click();
  await page.waitForURL(/#\/schedule\//);
  await closePage(page);
});

test('a schedule is stepped by keyboard, link and slider', async () => {
  const id = await service.push('resnet50.chain');
  const schedule = await service.post('v1/schedules', { profile_id: id, budget: '50%' });
  const timeline = await service.call('GET', `v1/schedules/${schedule.schedule_id}/timeline`);
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline?step=7`);
  const told = page.locator('.operation');
  await told.filter({ hasText: `operation 7, of 0 to ${timeline.operations.length - 1}` }).waitFor();
  const streams = page.locator('canvas[data-name=draw-streams]');
  await streams.click({ position: { x: 2, y: 2 } });
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowRight');
  await told.filter({ hasText: /^operation 1,/ }).waitFor();
  await page.keyboard.press('p');
  await told.filter({ hasText: `operation ${timeline.peak_operation},` }).waitFor();
  await page.waitForURL(new RegExp(`step=${timeline.peak_operation}`));
  /* what is alive there is what the service says */
  const alive = timeline.values.filter(
    ([, , , first, last]) => first <= timeline.peak_operation && timeline.peak_operation <= last,
  );
  const sum = alive.reduce((bytes, value) => bytes + value[2], 0);
  assert.equal(sum, schedule.peak);
  const rows = page.getByRole('table', { name: 'Values alive' }).locator('tbody tr');
  assert.equal(await rows.count(), Math.min(alive.length, 12));
  if (alive.length > 12) await page.getByText(`${alive.length} in all`).waitFor(); // one page needs no pager
  const slider = page.getByRole('slider', { name: 'Operation' });
  await slider.focus();
  await page.keyboard.press('End');
  await told.filter({ hasText: `operation ${timeline.operations.length - 1},` }).waitFor();
  assert.match(await slider.getAttribute('aria-valuetext'), /backward stem/);
  await page.getByLabel('operations', { exact: true }).check();
  assert.match(page.url(), /x=operations/);
  await closePage(page);
});

test('the pointer names the values alive and their bytes', async () => {
  const id = await service.push('resnet50.chain');
  const schedule = await service.post('v1/schedules', { profile_id: id, budget: '50%' });
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline`);
  const arena = page.locator('canvas[data-name=draw-arena]');
  await arena.hover({ position: { x: 500, y: 190 } });
  const tip = page.locator('.tip');
  await tip.waitFor();
  assert.match(
    await tip.locator('li').first().innerText(),
    /(output|saved values|gradient|workspace|input)[^]*[KMG]iB/,
  );
  assert.equal(await tip.locator('.pointed').count(), 1);
  await shot(page, 'schedule');
  await closePage(page);
});

test('an operation tells the implementation it runs', async () => {
  const profile = readFileSync(join(process.env.REMAT_ROOT, 'tests', 'data', 'convolutions.json'), 'utf8');
  const { profile_id } = await service.post('v1/profiles', profile);
  const schedule = await service.post('v1/schedules', { profile_id, budget: '70%' });
  assert.deepEqual(schedule.operations[0], ['F', 0, 'im2col']);
  const page = await open(`#/schedule/${schedule.schedule_id}/operations`);
  await page.getByText('forward conv1 by im2col').waitFor();
  await closePage(page);
});

test('two schedules are compared', async () => {
  const id = await service.push('resnet50.chain');
  const first = await service.post('v1/schedules', { profile_id: id, budget: '50%' });
  const second = await service.post('v1/schedules', { profile_id: id, budget: '70%' });
  const page = await open(`#/profile/${id}/schedules`);
  await page.getByLabel(`Compare schedule ${first.schedule_id.slice(0, 12)}`).check();
  await page.getByLabel(`Compare schedule ${second.schedule_id.slice(0, 12)}`).check();
  await page.getByRole('button', { name: 'Compare the two chosen' }).click();
  await page.waitForURL(/#\/compare\//);
  const change = (100 * Math.abs(second.makespan / first.makespan - 1)).toFixed(2);
  await page.locator('table.compare tr', { hasText: 'makespan' }).getByText(`−${change} %`).waitFor();
  await shot(page, 'compare');
  /* and storing everything is there, asked or not */
  await page.goto(`${service.url}#/schedule/${first.schedule_id}/compare`);
  await page.getByLabel('Compare with').selectOption('storing everything');
  await page.waitForURL(/#\/compare\//);
  await page.locator('table.compare th', { hasText: 'B: store-all' }).waitFor();
  await closePage(page);
});

test('a schedule is downloaded as JSON, CSV, SVG and a trace', async () => {
  const id = await service.push('resnet50.chain');
  const schedule = await service.post('v1/schedules', { profile_id: id, budget: '50%' });
  const page = await open(`#/schedule/${schedule.schedule_id}`);
  const download = async (name) => {
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name, exact: true }).click(),
    ]);
    return readFileSync(await file.path(), 'utf8');
  };
  const answer = await service.call('GET', `v1/schedules/${schedule.schedule_id}`);
  assert.deepEqual(JSON.parse(await download('JSON')), answer);
  const rows = (await download('CSV')).trim().split('\r\n');
  assert.equal(rows.length, answer.operations.length + 1);
  assert.match(rows[1], /^0,"[FA] 0","forward[^"]* stem",0,/);
  const trace = JSON.parse(await download('Trace'));
  assert.equal(trace.traceEvents.filter(({ args }) => 'operation' in args).length, answer.operations.length);
  const svg = await download('SVG');
  const shapes = await page.evaluate(
    (text) => new DOMParser().parseFromString(text, 'image/svg+xml').querySelectorAll('rect title').length,
    svg,
  );
  assert.equal(shapes, answer.operations.filter(([letter]) => 'FAB'.includes(letter)).length);
  await closePage(page);
});

test('the service shows its jobs, answers and version', async () => {
  const page = await open('#/service');
  await page.getByText('solves running').waitFor();
  assert.match(await page.locator('.facts').innerText(), /version\s+\d+\.\d+\.\d+/);
  await page.getByRole('cell', { name: 'solved', exact: true }).waitFor();
  await page.getByRole('link', { name: 'schedule', exact: true }).first().click();
  await page.waitForURL(/#\/schedule\//);
  await closePage(page);
});

test('jobs come newest first, and one that nothing fits is infeasible, not failed', async () => {
  const id = await service.push('vgg19.cpu.chain');
  const question = JSON.stringify({ profile_id: id, budget: '1%' });
  const refused = await fetch(`${service.url}v1/schedules`, {
    method: 'POST',
    body: question,
    headers: { 'Content-Type': 'application/json' },
  });
  assert.equal(refused.status, 422);
  for (const budget of ['80%', '85%', '90%']) await service.post('v1/schedules', { profile_id: id, budget });
  const { jobs } = await service.call('GET', 'v1/jobs');
  const infeasible = jobs.find((job) => job.state === 'infeasible');
  const page = await open(`#/job/${infeasible.job_id}`);
  await page.getByRole('status').filter({ hasText: 'infeasible' }).waitFor();
  await page.getByRole('alert').filter({ hasText: 'will do' }).waitFor();
  assert.doesNotMatch(await page.locator('main').innerText(), /failed/);
  await page.getByRole('link', { name: 'Service' }).click();
  const rows = page.getByRole('region', { name: 'Jobs' }).locator('tbody tr');
  const row = rows.filter({ has: page.getByRole('cell', { name: 'infeasible', exact: true }) }).first();
  await row.getByText(/would do/).waitFor();
  const cells = await row.locator('td').allInnerTexts();
  for (const part of ['vgg19-b2.cpu.chain', 'auto', 'address 127.0.0.1', '1.50 MiB'])
    assert.ok(cells.includes(part), part);
  const when = await rows.evaluateAll((list) =>
    list.map((one) => one.querySelector('td[data-title=When]').textContent),
  );
  assert.ok(when.length > 1);
  assert.deepEqual(when, [...when].sort().reverse());
  await page.goto(`${service.url}#/job/${infeasible.job_id}?layout=no&profile=${id}`);
  await page.getByRole('link', { name: /Ask for .* instead/ }).click();
  await page.waitForURL(/ask\?layout=no&solver=auto&budget=\d+$/);
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await page.waitForURL(/#\/schedule\//);
  await closePage(page);
});

test('an address of nothing says so', async () => {
  const page = await open('#/nothing/here');
  assert.equal(await heading(page), 'Nothing here');
  await closePage(page);
  const gone = await open(`#/schedule/${'0'.repeat(64)}`, { refusals: [404] });
  await gone.getByRole('alert').waitFor();
  await closePage(gone);
});

test('a token is asked for, kept for the tab, and a scope that lacks is named', async () => {
  const file = join(service.folder, 'tokens.json');
  const reader = Service.token(file, 'reader', 'read');
  const solver = Service.token(file, 'solver', 'read,solve');
  const guarded = await Service.start('--tokens', file);
  const id = (
    await guarded.call('POST', 'v1/profiles', profileText('resnet50.chain'), { Authorization: `Bearer ${solver}` })
  ).profile_id;
  const page = await openPage(browser, guarded, `#/profile/${id}/ask`, { refusals: [401, 403] });
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await shot(page, 'token');
  await dialog.getByLabel('Token').fill('remat_wrong');
  await dialog.getByRole('button', { name: 'Use it' }).click();
  await dialog.getByText('does not know the token').waitFor();
  await dialog.getByLabel('Token').fill(reader);
  await dialog.getByRole('button', { name: 'Use it' }).click();
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await page.getByRole('alert').filter({ hasText: 'solve' }).first().waitFor();
  await page.getByRole('button', { name: 'Forget token' }).click();
  await dialog.getByLabel('Token').fill(solver);
  await dialog.getByRole('button', { name: 'Use it' }).click();
  await page.getByRole('button', { name: 'Ask', exact: true }).click();
  await page.waitForURL(/#\/(job|schedule)\//);
  await page.waitForURL(/#\/schedule\//);
  await page.reload();
  await page.getByText('solved in').waitFor();
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  await closePage(page);
  await guarded.stop();
});

test('the API is a page, whose calls can be tried', async () => {
  const page = await open('docs');
  const { paths } = await service.call('GET', 'openapi.json');
  const calls = Object.values(paths).flatMap((item) => Object.keys(item).filter((key) => key !== 'parameters'));
  await page.locator('.opblock').nth(calls.length - 1).waitFor();
  assert.equal(await page.locator('.opblock').count(), calls.length);
  const solvers = page.locator('#operations-service-listSolvers');
  await solvers.locator('button.opblock-summary-control').click();
  await shot(page, 'docs');
  await solvers.getByRole('button', { name: 'Try it out' }).click();
  await solvers.getByRole('button', { name: 'Execute' }).click();
  await solvers.locator('.live-responses-table').getByText('rotor').first().waitFor();
  await closePage(page);
});
