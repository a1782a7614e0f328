// axe-core on every view, light and dark, wide and narrow; and the keyboard alone.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';

import { browser, closePage, openPage, Service, service, shot, stage } from './service.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let empty;
let views;

await stage();

before(async () => {
  empty = await Service.start();
  const joint = await service.push('resnet50.joint');
  const profile = await service.push('resnet50.chain');
  const [a, b] = [
    await service.post('v1/schedules', { profile_id: profile, budget: '50%' }),
    await service.post('v1/schedules', { profile_id: profile, budget: '70%' }),
  ];
  await service.post(`v1/schedules/${a.schedule_id}/measurements`, { step_time: 99000, device: 'cpu', note: 'a note' });
  const pebbles = await service.push('join-4-10-12');
  const c = await service.post('v1/schedules', {
    profile_id: pebbles,
    budget: 9,
    solver: 'join',
    options: { model: 'pebble' },
  });
  views = {
    profiles: '#/profiles',
    graph: `#/profile/${profile}/graph?node=3`,
    joint: `#/profile/${joint}/graph`,
    costs: `#/profile/${profile}/costs`,
    curve: `#/profile/${profile}/curve?solvers=auto,rotor`,
    plan: '#/plan?model=gpt2&batch=16&device=t4&optimizer=adamw',
    pipeline: '#/plan?model=gpt2&batch=16&device=t4&optimizer=adamw&parallel=pipeline&ranks=4&microbatches=8',
    ask: `#/profile/${profile}/ask?solver=rotor`,
    schedules: `#/profile/${profile}/schedules`,
    timeline: `#/schedule/${a.schedule_id}/timeline?step=12&by=layer`,
    nodes: `#/schedule/${a.schedule_id}/nodes`,
    operations: `#/schedule/${a.schedule_id}/operations`,
    measurements: `#/schedule/${a.schedule_id}/measurements`,
    pebbles: `#/schedule/${c.schedule_id}/timeline`,
    compare: `#/compare/${a.schedule_id}/${b.schedule_id}`,
    service: '#/service',
    nothing: '#/nothing',
  };
});

after(async () => {
  await empty.stop();
});

async function settled(page) {
  await page.locator('h1').waitFor();
  await page.waitForFunction(() => !/Loading…|Laying out|on its way…/.test(document.querySelector('main').textContent));
}

const WIDE = { viewport: { width: 1440, height: 900 } };
const NARROW = { viewport: { width: 390, height: 844 } };
const KINDS = {
  light: WIDE,
  dark: { ...WIDE, colorScheme: 'dark' },
  narrow: NARROW,
  'narrow-dark': { ...NARROW, colorScheme: 'dark' },
};

for (const [kind, options] of Object.entries(KINDS))
  test(`axe-core finds nothing serious, ${kind}`, async () => {
    const page = await openPage(browser, service, '', options);
    const found = [];
    for (const [name, view] of Object.entries({ ...views, empty: '#/' })) {
      await page.goto((name === 'empty' ? empty : service).url + view);
      await page.reload();
      await settled(page);
      /* run as the browser's own tool, not as a script of the page: the policy would refuse that */
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      for (const { id, impact, nodes } of violations)
        found.push(`${name}: ${impact} ${id} ${nodes[0].html.slice(0, 120)}`);
      const wide = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(wide, 0, `${name} is wider than the window`);
      await shot(page, `${kind}-${name}`);
    }
    assert.deepEqual(found, []);
    page.foreign = page.foreign.filter((url) => !url.startsWith(empty.url));
    await closePage(page);
  });

test('a schedule is reached and stepped without a pointer', async () => {
  const page = await openPage(browser, service, '#/profiles');
  await page.getByText(/^\d+ profiles$/).waitFor();
  /** Goes on with Tab until what has the focus is called name. */
  const tabTo = async (name) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press('Tab');
      const label = await page.evaluate(
        () => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent,
      );
      if (name.test(label ?? '')) return;
    }
    assert.fail(`Tab never came to ${name}`);
  };
  await tabTo(/resnet50.*chain/);
  await page.keyboard.press('Enter');
  await page.getByText('store-all peak').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'H1', 'the head of a new view has the focus');
  await tabTo(/^Schedules$/);
  await page.keyboard.press('Enter');
  await page.getByRole('region', { name: 'Schedules of the profile' }).waitFor();
  await tabTo(/^[0-9a-f]{12}$/);
  await page.keyboard.press('Enter');
  await page.getByText('solved in').waitFor();
  await tabTo(/^Streams of/);
  await page.keyboard.press('ArrowRight');
  await page
    .getByRole('status')
    .filter({ hasText: /^operation \d+,/ })
    .waitFor();
  await closePage(page);
});

test('every control has a name', async () => {
  const page = await openPage(browser, service, views.ask);
  await settled(page);
  const nameless = await page.evaluate(
    () =>
      [...document.querySelectorAll('button, input, select, a')].filter(
        (one) => !one.textContent.trim() && !one.labels?.length && !one.getAttribute('aria-label'),
      ).length,
  );
  assert.equal(nameless, 0);
  await closePage(page);
});
