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

/** By node: its layer, one below the lowest of its inputs; what has none is just above its first
 * reader. Nodes come in a topological order. */
function layersOf(n: number, edges: Uint32Array): Int32Array {
  const layers = new Int32Array(n);
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
function layered({ n, edges, width, height, gap }: LayoutRequest): Layout {
  const layers = layersOf(n, edges);
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
  const y = Float32Array.from(nodes, (node) => node.y);
  const bends = Array.from(short, (_, e) => {
    const [from = 0, to = 0] = edges.subarray(2 * e, 2 * e + 2);
    return [x[from] ?? 0, y[from] ?? 0, x[to] ?? 0, y[to] ?? 0];
  });
  for (const link of dag.links()) bends[link.data] = link.points.flat();
  return { x, y, bends, width: Math.max(...x) + width / 2, height: Math.max(...y) + height / 2 };
}

onmessage = (event: MessageEvent<LayoutRequest>) => {
  postMessage(fold(layered(event.data), event.data));
};
