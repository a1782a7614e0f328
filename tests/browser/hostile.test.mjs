// Names come from users: markup, quotes, right-to-left, line breaks, and long ones, wherever they are shown.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';

import { browser, closePage, openPage, service, shot, stage } from './service.mjs';

const NAMES = [
  '<img src=x onerror="globalThis.broken=1">',
  '"><script>globalThis.broken=1</script>',
  "' onmouseover='globalThis.broken=1",
  '\u202Egnp.elif\u202C \u2067טקסט\u2069 العربية',
  '{{constructor.constructor("globalThis.broken=1")()}}',
  '=HYPERLINK("http://127.0.0.1/")',
  `z${'\u0301\u0323'.repeat(40)}algo`,
  `long ${'w'.repeat(190)}`,
];

/** A chain in which every name is hostile. */
function hostileProfile(name) {
  const nodes = NAMES.map((id, v) => ({
    id,
    op: NAMES[(v + 1) % NAMES.length],
    inputs: [v === 0 ? '<b>x</b>' : NAMES[v - 1]],
    forward_time: 1 + v + NAMES.indexOf(name),
    output_bytes: 1000 * (1 + v),
    saved_bytes: 500,
  }));
  return { format: 'remat-profile/1', name, time_unit: 'us', inputs: [{ id: '<b>x</b>', bytes: 10 }], nodes };
}

let profiles;
let schedule;

await stage();

before(async () => {
  profiles = [];
  for (const name of NAMES) profiles.push((await service.post('v1/profiles', hostileProfile(name))).profile_id);
  schedule = await service.post('v1/schedules', { profile_id: profiles[0], budget: '70%' });
  await service.post(`v1/schedules/${schedule.schedule_id}/measurements`, {
    step_time: 50,
    device: NAMES[0],
    note: NAMES[1].repeat(40),
  });
});

/** Nothing of a name became an element or ran, and nothing is wider than the window. */
async function unharmed(page, what) {
  const state = await page.evaluate(() => ({
    broken: globalThis.broken,
    elements: document.querySelectorAll('img, script:not([src]), b, iframe').length,
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  }));
  assert.deepEqual(state, { broken: undefined, elements: 0, wide: 0 }, what);
}

const VIEWS = () => [
  '#/profiles',
  ...profiles.map((id) => `#/profile/${id}/costs`),
  `#/profile/${profiles[7]}/graph?node=3`,
  `#/profile/${profiles[1]}/curve`,
  `#/profile/${profiles[0]}/schedules`,
  `#/schedule/${schedule.schedule_id}/timeline?step=3`,
  `#/schedule/${schedule.schedule_id}/nodes`,
  `#/schedule/${schedule.schedule_id}/operations`,
  `#/schedule/${schedule.schedule_id}/measurements`,
  `#/compare/${schedule.schedule_id}/${schedule.schedule_id}`,
];

for (const width of [1280, 390])
  test(`hostile names are only text, ${width} pixels wide`, async () => {
    const page = await openPage(browser, service, '', { viewport: { width, height: 800 } });
    for (const view of VIEWS()) {
      await page.goto(service.url + view);
      await page.locator('h1').waitFor();
      await page.waitForFunction(() => !document.querySelector('main').textContent.includes('Loading…'));
      await unharmed(page, view);
    }
    await shot(page, `hostile-${width}`);
    await closePage(page);
  });

test('every name is shown whole, as it was posted', async () => {
  const page = await openPage(browser, service, '#/profiles');
  await page.getByText('8 profiles').waitFor();
  const shown = await page.locator('tbody bdi').evaluateAll((list) => list.map((bdi) => [bdi.textContent, bdi.title]));
  assert.deepEqual(new Set(shown.map(([text]) => text)), new Set(NAMES));
  assert.ok(shown.every(([text, title]) => text === title));
  await closePage(page);
});

test('a file with a name of 10,000 characters is refused at its field', async () => {
  const page = await openPage(browser, service, '', { refusals: [400] });
  const long = { ...hostileProfile(`<i>${'\u05d0'.repeat(10000)}`) };
  await page.getByLabel('Post a profile').setInputFiles({
    name: `${'<u>'.repeat(60)}.json`,
    mimeType: 'application/json',
    buffer: Buffer.from(JSON.stringify(long)),
  });
  await page.getByRole('alert').waitFor();
  assert.equal(await page.locator('code.field').innerText(), 'name');
  await unharmed(page, 'refused');
  await page.getByLabel('Search by name').fill('<i>'.repeat(60));
  await page.getByText('0 profiles').waitFor();
  await page.goto(`${service.url}#/profiles?name=${'x'.repeat(10000)}`);
  await page.reload();
  await page.getByRole('alert').waitFor();
  await unharmed(page, 'a long search');
  await closePage(page);
});

test('a CSV holds no formula', async () => {
  const page = await openPage(browser, service, `#/schedule/${schedule.schedule_id}`);
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).click()]);
  const fields = readFileSync(await file.path(), 'utf8').match(/(^|,)"(?:[^"]|"")*"/gm);
  assert.ok(fields.length > 0 && fields.every((field) => !/^,?"[=+@-]/.test(field)));
  await closePage(page);
});
