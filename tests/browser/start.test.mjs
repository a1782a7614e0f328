// The first minutes: an empty store, a sample, an upload, the budget slider; and a service that is away.

import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { closePage, largeProfile, openPage, profileText, Service, shot, startBrowser } from './service.mjs';

let browser;
let empty;

before(async () => {
  browser = await startBrowser();
  empty = await Service.start();
});

after(async () => {
  await browser.close();
  await empty.stop();
});

const GIB = (bytes) => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
const MS = (microseconds) => `${Number((microseconds / 1000).toPrecision(4))} ms`;

/** What the terms of the slider say. */
async function told(page) {
  const list = page.getByRole('region', { name: 'A budget' });
  const terms = await list.locator('dt').allInnerTexts();
  const values = await list.locator('dd').allInnerTexts();
  return Object.fromEntries(terms.map((term, i) => [term, values[i]]));
}

test('an empty store says what this is, and one click opens a sample with its curve', async () => {
  const page = await openPage(browser, empty);
  await page.getByText('remat makes a network train in the memory there is').waitFor();
  const code = await page.getByLabel('Three lines of Python').innerText();
  assert.equal(code.split('\n').length, 3);
  assert.ok(code.includes(`server="${empty.url.slice(0, -1)}"`), 'the address is this one');
  assert.equal(await page.locator('.samples button').count(), 3);
  await shot(page, 'empty');
  await page.getByRole('button', { name: 'U-Net' }).click();
  await page.waitForURL(/#\/profile\/[0-9a-f]{64}\/curve/);
  await page.getByRole('slider').waitFor();
  assert.equal(await page.locator('h1').innerText(), 'unet-b8.flops');
  const { profiles } = await empty.call('GET', 'v1/profiles');
  assert.equal(profiles.length, 1);
  const stored = await empty.call('GET', `v1/profiles/${profiles[0].profile_id}`);
  assert.deepEqual(stored.profile, JSON.parse(profileText('unet.flops')), 'the sample is the bundled profile');
  await closePage(page);
});

test('the samples open, each with the nodes and bytes that its button names', async () => {
  for (const [name, file] of [
    ['ResNet-50', 'resnet50.flops'],
    ['GPT-2', 'gpt.flops'],
    ['U-Net', 'unet.flops'],
  ]) {
    const service = await Service.start();
    const page = await openPage(browser, service);
    const said = await page.getByRole('button', { name }).innerText();
    await page.getByRole('button', { name }).click();
    await page.waitForURL(/\/curve/);
    const [{ profile_id }] = (await service.call('GET', 'v1/profiles')).profiles;
    const { nodes, store_all } = await service.call('GET', `v1/profiles/${profile_id}`);
    assert.equal(nodes, JSON.parse(profileText(file)).nodes.length);
    assert.ok(said.includes(`${nodes} operations`), said);
    assert.ok(said.includes(`${Number((store_all.peak / 2 ** 30).toPrecision(3))} GiB`), said);
    await page.getByRole('link', { name: 'Profiles' }).first().click();
    await page.getByRole('button', { name }).waitFor(); // it stays below what the store holds
    await closePage(page);
    await service.stop();
  }
});

test('the slider tells what its budget costs, and opens that schedule', async () => {
  const id = await empty.push('resnet50.chain');
  const points = (await empty.post('v1/tradeoffs', { profile_id: id, points: 60 })).filter((point) => point.feasible);
  const page = await openPage(browser, empty, `#/profile/${id}/curve`);
  const slider = page.getByRole('slider');
  await slider.waitFor();
  const check = async (point) => {
    const { budget, overhead, peak, makespan, solver } = await told(page);
    assert.ok(budget.startsWith(GIB(point.budget)), budget);
    assert.equal(peak, GIB(point.peak));
    assert.equal(makespan, MS(point.makespan));
    assert.equal(solver, point.solver);
    assert.ok(Math.abs(parseFloat(overhead) - 100 * point.overhead) < 0.051, overhead);
  };
  await slider.focus();
  await page.keyboard.press('Home');
  await check(points[0]);
  for (let i = 0; i < 7; i++) await page.keyboard.press('ArrowRight');
  await check(points[7]);
  await page.waitForURL(new RegExp(`budget=${points[7].budget}`));
  await page.reload();
  await slider.waitFor();
  await check(points[7]);
  await page.getByRole('button', { name: 'Open the schedule', exact: true }).click();
  await page.waitForURL(/#\/schedule\//);
  const schedule = await empty.call('GET', `v1/schedules/${/schedule\/([0-9a-f]{64})/.exec(page.url())[1]}`);
  assert.equal(schedule.budget, points[7].budget);
  assert.ok(schedule.makespan <= points[7].makespan * (1 + 1e-9));
  await closePage(page);
});

test('no makespan of the curve is below its one bound, whatever solvers are shown', async () => {
  const id = await empty.push('vgg19.chain');
  const page = await openPage(browser, empty, `#/profile/${id}/curve?solvers=auto,rotor,chen-sqrt,lowerset`);
  const table = page.getByRole('region', { name: 'Points of the curve' });
  await table.waitFor();
  await page.waitForFunction(() => !document.querySelector('main').textContent.includes('on its way'));
  const heads = await table.locator('th').allInnerTexts();
  assert.equal(heads.filter((head) => /bound/i.test(head)).length, 1);
  const value = (text) => parseFloat(text) * (text.endsWith('us') ? 1e-3 : 1);
  const bounds = new Map();
  for (;;) {
    for (const row of await table.locator('tbody tr').all()) {
      const cells = await row.locator('td').allInnerTexts();
      const [budget, makespan, bound] = [cells[2], value(cells[4]), value(cells[6])];
      assert.ok(makespan >= bound, `${cells}`);
      bounds.set(budget, (bounds.get(budget) ?? new Set()).add(bound));
    }
    const next = page.getByRole('button', { name: 'Next' });
    if (await next.isDisabled()) break;
    await next.click();
  }
  const label = await page.locator('.u-legend').innerText();
  assert.equal(label.match(/lower bound/g).length, 1);
  await closePage(page);
});

test('tables use the width, and on a phone nothing of a row is beyond the edge', async () => {
  const profile = JSON.parse(profileText('vgg19.flops'));
  profile.name = `runs/2026-11-22/${'a-long-name.'.repeat(12)}json`;
  await empty.post('v1/profiles', profile);
  const wide = await openPage(browser, empty, '#/profiles', { viewport: { width: 1440, height: 900 } });
  const table = (page) => page.getByRole('table', { name: 'Profiles' });
  await table(wide).waitFor();
  assert.ok((await table(wide).boundingBox()).width > 1350);
  await closePage(wide);
  const narrow = await openPage(browser, empty, '#/profiles', { viewport: { width: 390, height: 844 } });
  await table(narrow).waitFor();
  assert.equal(await table(narrow).getByRole('row').filter({ hasText: 'a-long-name' }).getByRole('cell').count(), 7);
  for (const cell of await table(narrow).getByRole('cell').all()) {
    const { x, width } = await cell.boundingBox();
    assert.ok(x >= 0 && x + width <= 390, await cell.innerText());
  }
  await narrow.getByRole('button', { name: 'Nodes' }).click();
  assert.match(narrow.url(), /sort=Nodes/, 'and it still sorts');
  await closePage(narrow);
});

test('a service that is away gets a sentence and a way to try again, in every view', async () => {
  const service = await Service.start();
  const id = await service.push('resnet50.chain');
  const { schedule_id } = await service.post('v1/schedules', { profile_id: id, budget: '50%' });
  const page = await openPage(browser, service, '#/profiles');
  await page.getByText('1 profile').waitFor();
  let away = true;
  /* as when it does not run: the connection is refused; what the page's own files are is in the cache */
  await page.route('**/*', (route) => (away ? route.abort('connectionrefused') : route.continue()));
  for (const view of [
    `#/profile/${id}/graph`,
    `#/schedule/${schedule_id}/timeline`,
    `#/profile/${id}/curve`,
    `#/compare/${schedule_id}/${schedule_id}`,
    '#/service',
    '#/profiles?name=x',
  ]) {
    await page.evaluate((hash) => {
      for (const alert of document.querySelectorAll('[role=alert]')) alert.dataset.before = 'yes';
      location.hash = hash;
    }, view);
    await page.locator('[role=alert]:not([data-before])').first().waitFor();
    const text = await page.locator('main').innerText();
    assert.match(text, /The service does not answer\./, view);
    assert.doesNotMatch(text, /TypeError|Failed to fetch/, view);
    assert.ok(await page.getByRole('button', { name: 'Try again' }).first().isVisible(), view);
  }
  away = false;
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('0 profiles of that name').waitFor();
  page.errors = page.errors.filter((error) => !/ERR_CONNECTION_REFUSED/.test(error));
  await closePage(page);
  await service.stop();
});

test('a solve whose service goes away is said to be so', async () => {
  const service = await Service.start('--workers', '1');
  const { profile_id } = await service.post('v1/profiles', largeProfile('chain', 500));
  const job = await service.post('v1/schedules', {
    profile_id,
    budget: '50%',
    solver: 'rotor',
    options: { slots: 3000 },
    wait: 0,
  });
  const page = await openPage(browser, service, `#/job/${job.job_id}`);
  await page.getByRole('progressbar').waitFor();
  service.process.kill('SIGKILL');
  await service.ended;
  await page.getByRole('alert').waitFor();
  const text = await page.locator('main').innerText();
  assert.match(text, /The service does not answer\./);
  assert.doesNotMatch(text, /TypeError|network error/i);
  assert.ok(await page.getByRole('button', { name: 'Try again' }).isVisible());
  page.errors = page.errors.filter((error) => !/ERR_/.test(error));
  await closePage(page);
  rmSync(service.folder, { recursive: true });
});
