// The first view: bytes and time. The large views: frames while they are moved and zoomed.
//
// Three things are measured while a drawing is moved in every frame: how long its own code takes
// (performance.measure around it), the processor time of the page's thread, and the time between the
// frames that the browser shows (requestAnimationFrame); medians and means of 160 frames. Headless
// Chromium has no GPU: the processor draws the canvases and puts them together, beside whatever else it
// does. So the frames are counted up to three times, and one time must reach 30 a second; on a machine
// with more than two jobs waiting for each processor that is told, and the processor time alone counts.

import assert from 'node:assert/strict';
import { cpus, loadavg } from 'node:os';
import { test } from 'node:test';

import { browser, closePage, deepProfile, largeProfile, openPage, service, stage } from './service.mjs';


await stage();

/** More than two jobs wait for each processor. */
const busy = () => loadavg()[0] / cpus().length > 2;

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

test('the first view is under 25 KB compressed and there within a second', async () => {
  for (const name of ['resnet50.chain', 'gpt.flops', 'unet.flops']) await service.push(name);
  const times = [];
  let received = 0;
  for (let i = 0; i < 5; i++) {
    const page = await openPage(browser, service, 'healthz', { refusals: [404] }); // a context without a cache, the browser awake
    const session = await page.context().newCDPSession(page);
    await session.send('Network.enable');
    received = 0;
    session.on('Network.loadingFinished', (event) => (received += event.encodedDataLength));
    const start = performance.now();
    await page.goto(service.url);
    await page.getByText('3 profiles').waitFor();
    times.push(performance.now() - start);
    await closePage(page);
  }
  console.log(`first view: ${received} bytes received, median ${Math.round(median(times))} ms`);
  assert.ok(received > 1000 && received < 25_000, `${received} bytes`);
  if (busy()) console.log('first view: its time is not judged, too many jobs for each processor');
  else assert.ok(median(times) < 1000, `${times} ms`);
});

/** Lets the page count its frames and its drawings. */
function watchFrames(page, drawing) {
  return page.evaluate((name) => {
    const state = { drawings: [], frames: [], on: true };
    globalThis.watched = state;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntriesByName(name)) state.drawings.push(entry.duration);
    }).observe({ entryTypes: ['measure'] });
    let last;
    const frame = (now) => {
      if (last !== undefined) state.frames.push(now - last);
      last = now;
      if (state.on) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }, drawing);
}

/** Moves and zooms for a while: a wheel event and a drag in every frame. */
function moveAbout(page, selector) {
  return page.evaluate(
    (chosen) =>
      new Promise((resolve) => {
        const element = document.querySelector(chosen);
        element.setPointerCapture = () => undefined;
        const box = element.getBoundingClientRect();
        const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
        const send = (type, dx) =>
          element.dispatchEvent(
            new PointerEvent(type, { clientX: x + dx, clientY: y, pointerId: 1, button: 0, bubbles: true }),
          );
        let i = 0;
        const frame = () => {
          if (i === 0) send('pointerdown', 0);
          send('pointermove', 3 * (i % 40));
          const deltaY = Math.floor(i / 40) % 2 ? 25 : -25;
          element.dispatchEvent(
            new WheelEvent('wheel', { deltaY, clientX: x, clientY: y, bubbles: true, cancelable: true, ctrlKey: true }),
          );
          if (++i < 160) requestAnimationFrame(frame);
          else {
            send('pointerup', 0);
            globalThis.watched.on = false;
            resolve(globalThis.watched);
          }
        };
        requestAnimationFrame(frame);
      }),
    selector,
  );
}

/** What one round of moving about cost: milliseconds of drawing code and processor a frame, and between frames. */
async function round(page, drawing, selector) {
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  const spent = async () =>
    (await session.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration').value;
  await watchFrames(page, drawing);
  const before = await spent();
  const { drawings, frames } = await moveAbout(page, selector);
  const processor = (1000 * ((await spent()) - before)) / frames.length;
  await session.detach();
  assert.ok(drawings.length > 60, `${drawings.length} drawings`);
  return { drawing: median(drawings), processor, frame: median(frames) };
}

const FRAME = 1000 / 30;

async function holds30(page, what, drawing, selector) {
  let best;
  const holds = (one) => one && one.frame <= FRAME + 0.5 && one.processor < FRAME;
  const slower = (one) => Math.max(one.frame, one.processor);
  for (let i = 0; i < 3 && !holds(best); i++) {
    const one = await round(page, drawing, selector);
    console.log(
      `${what}: drawing ${one.drawing.toFixed(1)} ms, processor ${one.processor.toFixed(1)} ms a frame, ` +
        `${(1000 / one.frame).toFixed(0)} frames a second`,
    );
    if (!best || slower(one) < slower(best)) best = one;
  }
  assert.ok(best.drawing < FRAME, `a drawing takes ${best.drawing} ms`);
  assert.ok(best.processor < FRAME, `a frame takes ${best.processor} ms of processor time`);
  if (best.frame > FRAME + 0.5 && busy()) console.log(`${what}: frames not judged, too many jobs for each processor`);
  else assert.ok(best.frame <= FRAME + 0.5, `a frame takes ${best.frame} ms`);
}

test('a graph of 1,000 nodes moves at 30 frames a second', async () => {
  const { profile_id } = await service.post('v1/profiles', largeProfile('graph', 1000));
  const page = await openPage(browser, service, `#/profile/${profile_id}/graph`);
  const start = performance.now();
  await page.locator('canvas').waitFor();
  console.log(`1,000 nodes: laid out after ${Math.round(performance.now() - start)} ms`);
  await holds30(page, '1,000 nodes', 'draw-graph', 'canvas');
  await closePage(page);
});

test('a graph of 5,006 nodes folds, unfolds and moves at 30 frames a second', async () => {
  const { profile_id } = await service.post('v1/profiles', deepProfile(250));
  const page = await openPage(browser, service, `#/profile/${profile_id}/graph`);
  const timed = async (what, boxes) => {
    const start = performance.now();
    await page.locator(`.graph[data-boxes="${boxes}"] canvas`).waitFor();
    console.log(`5,006 nodes, ${what}: ${boxes} boxes laid out after ${Math.round(performance.now() - start)} ms`);
  };
  await timed('folded', 7);
  await holds30(page, '5,006 nodes folded', 'draw-graph', 'canvas');
  await page.getByRole('button', { name: 'Unfold all' }).click();
  await timed('unfolded', 5006);
  await holds30(page, '5,006 nodes unfolded', 'draw-graph', 'canvas');
  await closePage(page);
});

for (const axis of ['time', 'operations'])
  test(`a timeline of 20,000 operations moves at 30 frames a second, over ${axis}`, async () => {
    const { profile_id } = await service.post('v1/profiles', largeProfile('chain', 5000));
    const schedule = await service.post('v1/schedules', { profile_id, budget: '20%', solver: 'chen-sqrt' });
    assert.ok(schedule.operations.length >= 20_000, `${schedule.operations.length} operations`);
    const page = await openPage(browser, service, `#/schedule/${schedule.schedule_id}/timeline?x=${axis}`);
    const start = performance.now();
    await page.locator('canvas[data-name=draw-arena]').waitFor();
    console.log(`${schedule.operations.length} operations: there after ${Math.round(performance.now() - start)} ms`);
    await holds30(page, `${schedule.operations.length} operations over ${axis}`, 'draw-streams', '.charts');
    await closePage(page);
  });
