// The page's own mathematics, without a browser: which blocks are equal, and how a graph is folded into columns.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';

import { deepProfile, profileText } from './service.mjs';

const { REMAT_BUILD, REMAT_ROOT } = process.env;
const MODULES = join(REMAT_BUILD, 'clients/web/node_modules');
const esbuild = createRequire(join(MODULES, 'here.js'))('esbuild');

async function load(name) {
  const entryPoints = [join(REMAT_ROOT, 'clients/web/src', `${name}.ts`)];
  const { outputFiles } = await esbuild.build({ entryPoints, bundle: true, format: 'esm', write: false, nodePaths: [MODULES] });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}

const { repeatsOf, boxesOf, boxOfNode, edgesOf, turnOf } = await load('blocks');
const { fold } = await load('layout');
const { shortened } = await load('format');

const profile = (name) => JSON.parse(profileText(name));
const shape = (found) => found.map(({ first, period, copies }) => [first, period, copies]);

test('equal blocks are found, and cut where their names begin', () => {
  assert.deepEqual(shape(repeatsOf(profile('gpt.flops'))), [[3, 20, 12]]);
  assert.deepEqual(shape(repeatsOf(profile('unet.flops'))), [], 'no two levels of a U-Net are alike');
  const resnet = profile('resnet50.flops');
  const names = repeatsOf(resnet).map(({ first, copies, period }) => [
    resnet.nodes[first].id,
    resnet.nodes[first + copies * period - 1].id,
  ]);
  assert.deepEqual(names, [
    ['layer1_1_conv1', 'layer1_2_relu_2'],
    ['layer2_1_conv1', 'layer2_3_relu_2'],
    ['layer3_1_conv1', 'layer3_5_relu_2'],
    ['layer4_1_conv1', 'layer4_2_relu_2'],
  ]);
});

test('both halves of a joint graph fold', () => {
  const joint = profile('gpt.joint');
  const found = repeatsOf(joint);
  assert.equal(found.length, 2);
  for (const { first, period, copies } of found)
    for (let v = first; v < first + (copies - 1) * period; v++)
      assert.equal(joint.nodes[v].op, joint.nodes[v + period].op);
  assert.match(joint.nodes[found[1].first].id, /^d\(h_/);
  const resnet = profile('resnet50.joint');
  const labels = boxesOf(resnet, repeatsOf(resnet), new Map()).filter((box) => box.repeat >= 0);
  assert.ok(
    labels.some((box) => box.label === 'd(layer3_4 … 1'),
    labels.map((box) => box.label).join(),
  );
});

test('a block that differs in one size is not folded', () => {
  const odd = profile('gpt.flops');
  odd.nodes[3 + 20 * 5 + 7].output_bytes += 1;
  const found = repeatsOf(odd);
  for (const { first, period, copies } of found)
    assert.ok(first + period * copies <= 3 + 20 * 5 + 7 || first > 3 + 20 * 5 + 7);
});

test('a long sequence without names for its parts folds too, and in no time', () => {
  const nodes = Array.from({ length: 5000 }, (_, v) => ({
    id: `features_${v}`,
    op: v % 2 ? 'relu' : 'conv2d',
    inputs: [v ? `features_${v - 1}` : 'x'],
    forward_time: 1,
    output_bytes: 1024,
  }));
  const start = process.cpuUsage();
  const found = repeatsOf({ name: 'sequence', nodes });
  const { user } = process.cpuUsage(start);
  assert.equal(found.length, 1);
  assert.equal(found[0].period, 2);
  assert.ok(found[0].copies >= 2498);
  const [box] = boxesOf({ name: 'sequence', nodes }, found, new Map()).filter((one) => one.repeat === 0);
  assert.match(box.label, /^features_\d … \d{4}$/);
  assert.ok(user < 5e6, `${user} µs`);
});

test('boxes hold every node once, their edges go forward, and unfolding gives the graph back', () => {
  const deep = deepProfile(250);
  const repeats = repeatsOf(deep);
  assert.deepEqual(shape(repeats), [[3, 20, 250]]);
  const n = deep.nodes.length;
  const count = (unfolded) => {
    const boxes = boxesOf(deep, repeats, unfolded);
    const edges = edgesOf(deep, boxOfNode(boxes, n));
    let next = 0;
    for (const { first, end } of boxes) {
      assert.equal(first, next);
      next = end;
    }
    assert.equal(next, n);
    for (let e = 0; e < edges.length; e += 2) assert.ok(edges[e] < edges[e + 1]);
    return boxes.length;
  };
  assert.equal(count(new Map()), 7);
  assert.equal(count(new Map([[0, new Set()]])), 256);
  assert.equal(count(new Map([[0, new Set([3, 4])]])), 254 + 40);
  assert.equal(count(new Map([[0, new Set(Array(250).keys())]])), n);
});

/** A strip of so many nodes, each above the next, and skips of a given length beside it. */
function strip(n, length) {
  const [x, y] = [new Float32Array(n).fill(200), Float32Array.from({ length: n }, (_, v) => 13 + 40 * v)];
  const bends = [];
  const ends = [];
  for (let v = 1; v < n; v++) ends.push([v - 1, v]);
  for (let v = 0, lane = 0; v + length < n; v += 7, lane++) ends.push([v, v + length, 20 + 12 * lane]);
  for (const [from, to, lane] of ends)
    bends.push(
      lane === undefined
        ? [x[from], y[from], x[to], y[to]]
        : [x[from], y[from], lane, y[from] + 40, lane, y[to] - 40, x[to], y[to]],
    );
  return { layout: { x, y, bends, width: 256, height: 40 * n }, ends };
}

test('every edge is one line from node to node, however many columns it crosses', () => {
  const { layout, ends } = strip(120, 50);
  const folded = fold(layout, { n: 120, edges: new Uint32Array(), width: 112, height: 26, gap: 14, aspect: 2.4 });
  assert.ok(new Set(Array.from(folded.x)).size > 3, 'in several columns');
  const segments = [];
  ends.forEach(([from, to], e) => {
    const corners = Array.from(folded.corners.subarray(folded.first[e], folded.first[e + 1]));
    assert.ok(corners.every(Number.isFinite));
    assert.deepEqual(corners.slice(0, 2), [folded.x[from], folded.y[from]]);
    assert.deepEqual(corners.slice(-2), [folded.x[to], folded.y[to]]);
    for (let i = 2; i < corners.length; i += 2) segments.push({ e, at: corners.slice(i - 2, i + 2) });
  });
  for (const { at } of segments) {
    assert.ok(Math.min(at[0], at[2]) >= 0 && Math.max(at[0], at[2]) <= folded.width, 'within the drawing');
    assert.ok(Math.min(at[1], at[3]) >= 0 && Math.max(at[1], at[3]) <= folded.height, 'within the drawing');
  }
  /* around the ends of columns, where lines are level or upright, no two are on top of each other */
  const level = segments.filter(({ at }) => at[1] === at[3] && at[0] !== at[2]);
  assert.ok(level.length > 20);
  for (const a of level)
    for (const b of level) {
      if (a.e >= b.e || Math.abs(a.at[1] - b.at[1]) > 0.01) continue;
      const [a0, a1, b0, b1] = [
        ...[a.at[0], a.at[2]].sort((p, q) => p - q),
        ...[b.at[0], b.at[2]].sort((p, q) => p - q),
      ];
      assert.ok(a1 <= b0 || b1 <= a0, `edges ${a.e} and ${b.e} lie on each other`);
    }
});

test('the forward of a joint graph goes down on the left, the backward up on the right, level with it', async () => {
  let folded;
  globalThis.onmessage = undefined;
  globalThis.postMessage = (answer) => (folded = answer);
  await load('layout_worker');
  for (const name of ['gpt.joint', 'resnet50.joint']) {
    const { nodes, graph } = profile(name);
    const index = new Map(nodes.map(({ id }, v) => [id, v]));
    const turn = turnOf({ nodes, graph });
    assert.equal(nodes[turn - 1].id, 'd(loss)');
    const edges = edgesOf({ nodes }, Int32Array.from(nodes.keys()));
    globalThis.onmessage({ data: { n: nodes.length, edges, width: 112, height: 26, gap: 7, aspect: 1.6, turn } });
    const pairs = nodes.slice(0, turn - 2).map(({ id }, v) => [v, index.get(`d(${id})`)]);
    const level = pairs.filter(([v, d]) => Math.abs(folded.y[v] - folded.y[d]) < 4 * 33);
    assert.ok(level.length > 0.8 * pairs.length, `${name}: ${level.length} of ${pairs.length} are level`);
    assert.ok(level.every(([v, d]) => folded.x[v] < folded.x[d]));
    assert.ok(folded.corners.every(Number.isFinite));
  }
});

test('a name too long for its place keeps both ends', () => {
  assert.equal(shortened('layer1_0_downsample_0', 21), 'layer1_0_downsample_0');
  assert.equal(shortened('layer1_0_downsample_0', 12), 'layer1…ple_0');
  assert.equal(shortened('layer1_0_downsample_1', 13), 'layer1…mple_1');
  assert.equal(shortened('abc', 1), 'a…');
});
