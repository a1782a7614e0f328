// One picture of a schedule: its graph, its memory and its streams, and how they are linked.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';

import { browser, closePage, openPage, service, shot, stage } from './service.mjs';

let unet;
let schedule;
let timeline;

await stage();

before(async () => {
  unet = await service.push('unet.flops');
  schedule = await service.post('v1/schedules', { profile_id: unet, budget: '60%' });
  timeline = await service.call('GET', `v1/schedules/${schedule.schedule_id}/timeline`);
});

const open = (view, options) => openPage(browser, service, view, options);
const nodeNamed = (id) => timeline.nodes.indexOf(id);
const caption = (page) => page.locator('.graph figcaption').innerText();
const boxes = async (page) => Number(await page.locator('.graph').getAttribute('data-boxes'));
const told = (page) => page.locator('.operation');

/** The part of a canvas that has a colour of the style sheet: its left and right end, and how many pixels. */
function extent(page, selector, ink) {
  return page.evaluate(
    ([chosen, name]) => {
      const canvas = document.querySelector(chosen);
      const context = canvas.getContext('2d');
      const probe = document.createElement('canvas').getContext('2d');
      probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
      probe.fillRect(0, 0, 1, 1);
      const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
      const { data, width } = context.getImageData(0, 0, canvas.width, canvas.height);
      const seen = { left: Infinity, right: -1, pixels: 0 };
      for (let i = 0; i < data.length; i += 4) {
        if (data[i] !== r || data[i + 1] !== g || data[i + 2] !== b) continue;
        const x = (i / 4) % width;
        seen.left = Math.min(seen.left, x / width);
        seen.right = Math.max(seen.right, x / width);
        seen.pixels++;
      }
      return seen;
    },
    [selector, ink],
  );
}

/** Waits until that part is as it should be: a canvas is drawn some frames after the text that tells of it. */
async function drawn(page, selector, ink, enough, what) {
  let seen;
  for (const end = Date.now() + 10000; Date.now() < end; await page.waitForTimeout(20)) {
    seen = await extent(page, selector, ink);
    if (enough(seen)) return;
  }
  assert.fail(`${what}: ${JSON.stringify(seen)}`);
}

const GRAPH = 'canvas[data-name=draw-graph]';
const MEMORY = 'canvas[data-name=draw-memory]';

test('a skip of a U-Net is followed from the node that makes it to the one that takes it', async () => {
  const page = await open(`#/profile/${unet}/graph?node=${nodeNamed('u0_crop')}`);
  await page.locator(GRAPH).waitFor();
  assert.equal(await boxes(page), 60);
  assert.match(await caption(page), /u0_crop[^]*from d0_relu2[^]*to u0_cat/);
  await drawn(page, GRAPH, 'accent', (way) => way.right - way.left > 0.5, 'it is seen across the columns');
  await shot(page, 'skip');
  await closePage(page);
});

test('equal blocks fold into one box, unfold by a step each, and fold again', async () => {
  const id = await service.push('gpt.flops');
  const page = await open(`#/profile/${id}/graph`);
  const canvas = page.locator(GRAPH);
  await canvas.waitFor();
  assert.equal(await boxes(page), 7);
  await canvas.focus();
  for (let i = 0; i < 4; i++) await page.keyboard.press('j');
  await page.locator('.graph figcaption', { hasText: 'h_0 … 11 240 nodes' }).waitFor();
  const unfolded = (count) => page.locator(`.graph[data-boxes="${count}"]`).waitFor();
  await page.keyboard.press('Enter');
  await unfolded(6 + 12);
  await page.locator('.graph figcaption', { hasText: 'h_0 20 nodes' }).waitFor();
  await page.keyboard.press('Enter');
  await unfolded(6 + 11 + 20);
  await page.locator('.graph figcaption', { hasText: 'h_0_ln1' }).waitFor();
  await page.getByRole('button', { name: 'Unfold all' }).click();
  await unfolded(246);
  await page.getByRole('button', { name: 'Fold equal blocks' }).click();
  await unfolded(7);
  /* and by a click, somewhere in the drawing */
  await page.goto(`${service.url}#/profiles`);
  await page.goto(`${service.url}#/profile/${id}/graph`);
  await unfolded(7);
  const box = await canvas.boundingBox();
  for (let x = 0.1; x < 0.9 && (await boxes(page)) === 7; x += 0.04)
    for (const y of [0.4, 0.46, 0.52]) {
      await page.mouse.move(box.x + x * box.width, box.y + y * box.height);
      if (!/^h_0 … 11/.test(await caption(page))) continue;
      await page.mouse.down();
      await page.mouse.up();
      await page.waitForTimeout(200); /* a drawing that has just moved puts another box there */
      break;
    }
  await unfolded(18);
  await closePage(page);
});

test('boxes say what becomes of their nodes, as the table and the schedule do', async () => {
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline`);
  await page.locator(GRAPH).waitFor();
  const legend = await page.locator('.graph .legend').innerText();
  const runs = new Map();
  for (const [letter, v] of schedule.operations) if ('FA'.includes(letter)) runs.set(v, (runs.get(v) ?? 0) + 1);
  const again = [...runs.values()].filter((count) => count > 1).length;
  const turn = schedule.operations.findIndex(([letter]) => letter === 'B');
  const kept = new Set(timeline.values.filter(([, , , first, last]) => first < turn && turn <= last).map(([, v]) => v));
  const once = [...runs].filter(([v, count]) => count === 1 && kept.has(v)).length;
  assert.ok(legend.includes(`${again} recomputed`), legend);
  assert.ok(legend.includes(`${once} kept`), legend);
  assert.ok(legend.includes(`${60 - again - once} not kept`), legend);
  await page.getByRole('link', { name: 'Nodes' }).click();
  const table = page.getByRole('region', { name: 'What becomes of the nodes' });
  await table.waitFor();
  assert.equal(await table.getByRole('cell', { name: 'recomputed', exact: true }).count(), again);
  await closePage(page);
});

test('at 1280 x 800 the pictures come before the words', async () => {
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline`, { viewport: { width: 1280, height: 800 } });
  const words = page.getByLabel('Why it is as it is');
  await words.waitFor();
  const ends = [];
  for (const name of ['memory', 'strip', 'streams']) {
    const { y, height } = await page.locator(`canvas[data-name=draw-${name}]`).boundingBox();
    ends.push(y + height);
  }
  assert.ok(Math.max(...ends) <= 800 && Math.max(...ends) <= (await words.boundingBox()).y, `${ends}`);
  for (const ink of ['kept', 'forward', 'again', 'backward'])
    await drawn(page, 'canvas[data-name=draw-strip]', ink, ({ pixels }) => pixels > 20, `${ink} is in the strip`);
  await closePage(page);
});

test('offloaded nodes are told', async () => {
  const id = await service.push('gpt.chain');
  const { schedule_id, operations } = await service.post('v1/schedules', {
    profile_id: id,
    budget: '30%',
    link: { bandwidth: '12GB/s' },
  });
  const page = await open(`#/schedule/${schedule_id}/timeline`);
  const nodes = new Set( // by an output, or by what they save
    operations.filter(([letter, what]) => letter === 'O' && what !== 'input').map((operation) => operation.at(-1)),
  );
  await page.locator('.graph .legend', { hasText: `${nodes.size} offloaded` }).waitFor();
  await closePage(page);
});

test('the timeline opens at the peak; a node and its operations lead to each other', async () => {
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline`);
  await told(page)
    .filter({ hasText: `operation ${timeline.peak_operation},` })
    .waitFor();
  const peak = timeline.operations[timeline.peak_operation];
  await page.locator('.graph figcaption', { hasText: timeline.nodes[peak[1]] }).waitFor();
  await page.locator(GRAPH).focus();
  await page.keyboard.press('k');
  const before = timeline.nodes[peak[1] - 1];
  await told(page).filter({ hasText: before }).waitFor();
  /* stepping on in time takes the graph along */
  await page.locator(MEMORY).focus();
  await page.keyboard.press('Home');
  await page.locator('.graph figcaption', { hasText: timeline.nodes[0] }).waitFor();
  await closePage(page);
});

test('the bands of memory add up to what the service says, by kind and by layer', async () => {
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline`);
  await page.locator(MEMORY).waitFor();
  const keys = page.locator('.keys').first();
  assert.deepEqual((await keys.innerText()).trim().split(/\s+/), ['gradients', 'saved', 'outputs', 'inputs']);
  const hover = async () => {
    const box = await page.locator(MEMORY).boundingBox();
    const marker = await page.locator('.marker.step').boundingBox();
    /* from the top of the stack at the peak down: the band that is named first is the topmost there */
    await page.mouse.move(marker.x + 1, box.y + 0.16 * box.height);
    await page.locator('.tip').waitFor();
    return page.locator('.tip').innerText();
  };
  const gradients = timeline.values
    .filter(
      ([kind, , , first, last]) =>
        kind.endsWith('grad') && first <= timeline.peak_operation && timeline.peak_operation <= last,
    )
    .reduce((sum, value) => sum + value[2], 0);
  assert.match(await hover(), new RegExp(`gradients ${Math.round(gradients / 2 ** 20)} MiB`));
  await page.getByLabel('Stacked by').selectOption('layer');
  assert.match(page.url(), /by=layer/);
  const layers = (await keys.innerText())
    .trim()
    .split(/\n| {2,}/)
    .map((name) => name.trim());
  assert.ok(layers.includes('u0') && layers.includes('d0') && layers.length >= 10, layers.join());
  await shot(page, 'layers');
  await closePage(page);
});

test('a stretch is selected, summed, zoomed to and left again', async () => {
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline?x=operations`);
  const canvas = page.locator(MEMORY);
  await canvas.waitFor();
  const box = await canvas.boundingBox();
  const n = timeline.operations.length;
  const at = (operation) => box.x + 84 + ((operation + 0.5) / n) * (box.width - 94);
  await page.mouse.move(at(100), box.y + 100);
  await page.mouse.down();
  await page.mouse.move(at(120), box.y + 100, { steps: 4 });
  await page.mouse.up();
  const sums = page.getByRole('region', { name: 'The stretch selected' });
  await sums.waitFor();
  /* operations 100 to 120, the ends counted where the drag touches them */
  const [from, to] = [100, 121];
  const stretch = timeline.operations.slice(from, to);
  const takes = (i) => timeline.end[from + i] - timeline.start[from + i];
  const text = await sums.innerText();
  const backwards = stretch.filter(([letter]) => letter === 'B');
  const spent = stretch.reduce((sum, [letter], i) => (letter === 'B' ? sum + takes(i) : sum), 0);
  assert.match(text, new RegExp(`backward\\s+${Number((spent / 1000).toPrecision(4))} ms in ${backwards.length}\\b`));
  const most = Math.max(...timeline.memory_during.slice(from, to));
  const mostAt = timeline.memory_during.indexOf(most, from);
  assert.match(text, new RegExp(`at operation ${mostAt}\\b`));
  await shot(page, 'selected');
  await sums.getByRole('button', { name: 'Zoom to it' }).click();
  await canvas.focus();
  await page.keyboard.press('Escape');
  await sums.waitFor({ state: 'detached' });
  await closePage(page);
});

test('W S A D zoom and move as in a trace viewer', async () => {
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline?x=operations`);
  const canvas = page.locator(MEMORY);
  await canvas.waitFor();
  await canvas.focus();
  const box = await canvas.boundingBox();
  /** The operation under the left end of the chart: what is seen begins there. */
  const first = async () => {
    await page.mouse.move(box.x + 84.5, box.y + 100);
    const head = await page.locator('.tip strong').innerText();
    await page.mouse.move(box.x + 84.5, box.y - 300);
    return Number(/^\d+/.exec(head)[0]);
  };
  assert.equal(await first(), 0);
  for (let i = 0; i < 4; i++) await page.keyboard.press('w');
  const zoomed = await first();
  assert.ok(zoomed > 60, `${zoomed}`);
  for (let i = 0; i < 2; i++) await page.keyboard.press('d');
  const moved = await first();
  assert.ok(moved > zoomed);
  for (let i = 0; i < 2; i++) await page.keyboard.press('a');
  assert.equal(await first(), zoomed);
  for (let i = 0; i < 4; i++) await page.keyboard.press('s');
  assert.equal(await first(), 0);
  await closePage(page);
});

test('layers are found by name, in the timeline and in the graph', async () => {
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline?step=0`);
  await page.locator(GRAPH).waitFor();
  const search = page.getByRole('searchbox', { name: 'Search layers' });
  await search.fill('D3_');
  const nodes = timeline.nodes.filter((id) => id.startsWith('d3_')).length;
  const runs = timeline.operations.filter(([, v]) => timeline.nodes[v]?.startsWith('d3_')).length;
  await page.getByText(`${nodes} nodes,`).waitFor();
  const said = await page.locator('.find [role=status]').innerText();
  assert.match(said, /^\d+ nodes, \d+ operations$/);
  assert.ok(Number(/, (\d+)/.exec(said)[1]) >= runs - 1, said);
  await drawn(page, MEMORY, 'accent', (marked) => marked.pixels > 100, 'their memory is marked');
  await search.press('Enter');
  const first = timeline.operations.findIndex(
    ([letter, v]) => 'FA'.includes(letter) && timeline.nodes[v]?.startsWith('d3_'),
  );
  await told(page)
    .filter({ hasText: `operation ${first},` })
    .waitFor();
  await search.fill('no such layer');
  await page.getByText('0 nodes, 0 operations').waitFor();
  await closePage(page);
});

test('one word for one thing: tabs, lists and files of a schedule name an operation alike', async () => {
  const again = timeline.operations.findIndex(
    ([letter, v], i) => letter === 'F' && timeline.operations.slice(0, i).some(([l, u]) => 'FA'.includes(l) && u === v),
  );
  const name = `recompute ${timeline.nodes[timeline.operations[again][1]]}`;
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline?step=${again}`);
  await told(page)
    .filter({ hasText: `operation ${again}, of 0 to ${timeline.operations.length - 1}: ${name}` })
    .waitFor();
  await page.getByRole('link', { name: 'Operations' }).click();
  const row = page.getByRole('row', { name: new RegExp(`^${again} ${name} `) });
  for (let at = 0; at * 100 + 100 <= again; at++) await page.getByRole('button', { name: 'Next' }).click();
  await row.waitFor();
  const shown = await page.locator('main').innerText();
  assert.doesNotMatch(shown, /forward again|computed again/);
  await closePage(page);
});

test('a schedule explains itself in the words of the service', async () => {
  const { sentences } = await service.call('GET', `v1/schedules/${schedule.schedule_id}/explanation`);
  const page = await open(`#/schedule/${schedule.schedule_id}/timeline`);
  const shown = page.locator('.explained');
  await shown.waitFor();
  const text = (await shown.innerText()).replace(/\s+/g, ' ');
  for (const sentence of sentences) assert.ok(text.includes(sentence.text), sentence.text);
  await closePage(page);
});

test('no bound that is compared is above a makespan, where the answers have bounds of classes too', async () => {
  const id = await service.push('gpt.chain');
  const [a, b] = [
    await service.post('v1/schedules', { profile_id: id, budget: '40%', solver: 'chen-sqrt' }),
    await service.post('v1/schedules', { profile_id: id, budget: '40%', link: { bandwidth: '12GB/s' } }),
  ].sort((p, q) => p.makespan - q.makespan);
  const page = await open(`#/compare/${a.schedule_id}/${b.schedule_id}`);
  const row = (name) => page.locator('table.compare tr', { hasText: name }).locator('td');
  await row('makespan').first().waitFor();
  const value = async (name, i) => parseFloat(await row(name).nth(i).innerText());
  for (const bound of [await value('lower bound', 0), await value('lower bound', 1)])
    for (const makespan of [await value('makespan', 0), await value('makespan', 1)])
      assert.ok(bound <= makespan, `${bound} above ${makespan}`);
  await closePage(page);
});
