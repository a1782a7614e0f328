/** Lays a graph out in layers, in a thread of its own. */

import {
  coordGreedy,
  coordSimplex,
  decrossDfs,
  decrossTwoLayer,
  graph,
  sugiyama,
  twolayerAgg,
  type Graph,
} from 'd3-dag';

import { fold, type Layout, type LayoutRequest } from './layout';

/** By node: its layer, one below the lowest of its inputs, and at least so low; what has none is just
 * above its first reader. Nodes come in a topological order. */
function layersOf(n: number, edges: Uint32Array, least = new Int32Array(n)): Int32Array {
  const layers = least.slice();
  const first = new Int32Array(n).fill(n);
  const inputs = new Uint8Array(n);
  const order = Array.from({ length: edges.length / 2 }, (_, e) => e);
  order.sort((a, b) => (edges[2 * a + 1] ?? 0) - (edges[2 * b + 1] ?? 0));
  for (const e of order) {
    const [from = 0, to = 0] = edges.subarray(2 * e, 2 * e + 2);
    layers[to] = Math.max(layers[to] ?? 0, (layers[from] ?? 0) + 1);
    inputs[to] = 1;
  }
  for (const e of order) {
    const [from = 0, to = 0] = edges.subarray(2 * e, 2 * e + 2);
    first[from] = Math.min(first[from] ?? n, layers[to] ?? n);
  }
  return layers.map((layer, v) => (inputs[v] || first[v] === n ? layer : (first[v] ?? 1) - 1));
}

/** Which edges are led around nodes: the short ones. An edge costs a bend in every layer that it
 * crosses, and where many cross hundreds the bends would outnumber the nodes by far. */
function led(n: number, edges: Uint32Array, layers: Int32Array): Uint8Array {
  const span = (e: number) => (layers[edges[2 * e + 1] ?? 0] ?? 0) - (layers[edges[2 * e] ?? 0] ?? 0);
  const order = Array.from({ length: edges.length / 2 }, (_, e) => e).sort((a, b) => span(a) - span(b));
  const short = new Uint8Array(order.length);
  let bends = 0;
  for (const e of order) {
    bends += span(e) - 1;
    if (bends > 3 * n + 300) break;
    short[e] = 1;
  }
  return short;
}

/** Better layouts take longer: what 200 nodes get in a third of a second would take 1,000 ten. */
function layered({ n, edges, width, height, gap }: LayoutRequest, wanted: Int32Array): Layout {
  const levels = [...new Set(wanted)].sort((a, b) => a - b);
  const layers = wanted.map((level) => levels.indexOf(level)); // none is empty
  const short = led(n, edges, layers);
  const dag = graph<number, number>();
  const nodes = Array.from({ length: n }, (_, v) => dag.node(v));
  short.forEach((is, e) => {
    const [from, to] = [nodes[edges[2 * e] ?? 0], nodes[edges[2 * e + 1] ?? 0]];
    if (is && from && to) dag.link(from, to, e);
  });
  const layerOf = new Map<unknown, number>(nodes.map((node, v) => [node, layers[v] ?? 0]));
  const layering = <N, L>(all: Graph<N, L>): number => {
    for (const node of all.nodes()) node.y = layerOf.get(node) ?? 0;
    return Math.max(...layers);
  };
  const size = n + edges.length / 2;
  const shape = sugiyama().nodeSize([width, height]).gap([gap, gap]).layering(layering);
  const twoLayers = decrossTwoLayer().order(twolayerAgg());
  if (size <= 700) shape.decross(twoLayers).coord(coordSimplex())(dag);
  else if (size <= 3000) shape.decross(twoLayers).coord(coordGreedy())(dag);
  else shape.decross(decrossDfs()).coord(coordGreedy())(dag);

  const x = Float32Array.from(nodes, (node) => node.x);
  const pitch = height + gap;
  const lowered = (value: number) => {
    const layer = Math.round((value - height / 2) / pitch);
    return value + ((levels[layer] ?? 0) - layer) * pitch;
  };
  const y = Float32Array.from(nodes, (node) => lowered(node.y));
  const bends = Array.from(short, (_, e) => {
    const [from = 0, to = 0] = edges.subarray(2 * e, 2 * e + 2);
    return [x[from] ?? 0, y[from] ?? 0, x[to] ?? 0, y[to] ?? 0];
  });
  for (const link of dag.links()) bends[link.data] = link.points.flatMap(([at, down]) => [at, lowered(down)]);
  return { x, y, bends, width: Math.max(...x) + width / 2, height: Math.max(...y) + height / 2 };
}

/** A joint graph: the forward as it is, and right of it the backward, turned so that it goes up, each operation level
 * with what it reads of the forward. */
function joint(request: LayoutRequest): Layout {
  const { n, edges, turn, gap, height } = request;
  const halves: { ends: number[]; of: number[] }[] = [0, 1, 2].map(() => ({ ends: [], of: [] }));
  for (let e = 0; e < edges.length / 2; e++) {
    const [from = 0, to = 0] = edges.subarray(2 * e, 2 * e + 2);
    const half = halves[to < turn ? 0 : from < turn ? 1 : 2];
    half?.ends.push(...(from < turn ? [from, to] : [n - 1 - to, n - 1 - from]));
    half?.of.push(e);
  }
  const [down, across, up] = halves.map(({ ends, of }) => ({ edges: Uint32Array.from(ends), of }));
  if (!down || !across || !up) throw new Error('no halves');
  const reads = (look: (from: number, to: number) => void) => {
    for (let e = 0; e < across.edges.length; e += 2) look(across.edges[e] ?? 0, n - 1 - (across.edges[e + 1] ?? 0));
  };
  const least = new Int32Array(n - turn);
  const beside = (layers: Int32Array) => {
    reads((from, to) => (least[to] = Math.max(least[to] ?? 0, layers[from] ?? 0)));
    return layersOf(n - turn, up.edges, least);
  };
  /* and where the backward is longer, the forward as low as what reads it */
  const longer = beside(layersOf(turn, down.edges));
  const room = new Int32Array(turn).fill(-1);
  reads((from, to) => (room[from] = Math.min(room[from] === -1 ? n : (room[from] ?? n), longer[to] ?? n)));
  const layers = layersOf(turn, down.edges, room.map((layer) => Math.max(0, layer)));
  const left = layered({ ...request, n: turn, edges: down.edges }, layers);
  const right = layered({ ...request, n: n - turn, edges: up.edges }, beside(layers));
  const aside = left.width + 2 * gap;
  const x = Float32Array.from({ length: n }, (_, v) => (v < turn ? left.x[v] : aside + (right.x[n - 1 - v] ?? 0)) ?? 0);
  const y = Float32Array.from({ length: n }, (_, v) => (v < turn ? left.y[v] : right.y[n - 1 - v]) ?? 0);
  const bends: number[][] = [];
  down.of.forEach((e, k) => (bends[e] = left.bends[k] ?? []));
  up.of.forEach((e, k) => (bends[e] = (right.bends[k] ?? []).map((value, i) => (i % 2 ? value : value + aside))));
  across.of.forEach((e, k) => {
    const [from = 0, to = 0] = across.edges.subarray(2 * k, 2 * k + 2);
    const ends = [from, to].map((v) => [x[v] ?? 0, y[v] ?? 0]);
    bends[e] = ends.sort(([, a = 0], [, b = 0]) => a - b).flat(); // lines are followed downwards
  });
  return { x, y, bends, width: aside + right.width, height: Math.max(...y) + height / 2 };
}

onmessage = ({ data }: MessageEvent<LayoutRequest>) => {
  const { n, edges, turn } = data;
  postMessage(fold(turn > 0 && turn < n ? joint(data) : layered(data, layersOf(n, edges)), data));
};
