/** Equal blocks of a graph, one after the other, and the boxes in which it is drawn: a box is a run
 * of nodes in their order, so that boxes of a graph without cycles have none either. */

import type { Node, Profile } from './types';

/** copies × period nodes, from first on: copies alike in operators, bytes and inputs. */
export interface Repeat {
  first: number;
  period: number;
  copies: number;
}

export interface Box {
  first: number;
  /** One past its last node. */
  end: number;
  label: string;
  /** Which repeat is within, and which copy of it (-1: all of them); -1 for a node alone. */
  repeat: number;
  copy: number;
}

/** By repeat: the copies that are unfolded; none where it is folded as a whole. */
export type Unfolded = ReadonlyMap<number, ReadonlySet<number>>;

/** Inputs from further back are told by what they are, not by how far. So are all of a joint graph: from
 * its backward half to the mirrored forward one it is another way in every copy. */
const NEAR = 32;
/** No longer block is looked for: the search takes n steps for each length. */
const LONGEST = 1500;
/** Of so many places the best is taken to cut a stretch. */
const SHIFTS = 500;
/** So many copies are folded even if their names do not tell them apart. */
const MANY = 6;
/** Folding must take away so many nodes to be worth a box that hides them. */
const WORTH = 3;

/** Equal numbers for nodes that are alike. */
function kindsOf({ nodes, graph }: Profile): Int32Array {
  const index = new Map(nodes.map((node, v) => [node.id, v]));
  const near = graph === 'joint' ? 0 : NEAR;
  const numbers = new Map<string, number>();
  const number = (text: string) => {
    const known = numbers.get(text) ?? numbers.size;
    numbers.set(text, known);
    return known;
  };
  const plain = nodes.map((node) => `${node.op || node.id.replace(/\d+/g, '#')} ${node.output_bytes}`);
  return Int32Array.from(nodes, (node, v) => {
    const inputs = [...new Set(node.inputs)].map((id) => {
      const from = index.get(id);
      if (from === undefined) return '';
      return v - from <= near ? v - from : plain[from];
    });
    return number(`${plain[v]} ${inputs.join()}`);
  });
}

/** The words that the ids of a block have in common: "h_3" of h_3_ln1 and h_3_qkv. */
function nameOf(nodes: Node[], first: number, end: number): string {
  const id = nodes[first]?.id ?? '';
  let length = id.length;
  for (let v = first + 1; v < end; v++) {
    const other = nodes[v]?.id ?? '';
    while (!other.startsWith(id.slice(0, length))) length--;
  }
  const within = /^[\p{L}\p{N}]/u.test(id.slice(length));
  return id
    .slice(0, length)
    .replace(within ? /[\p{L}\p{N}]*$/u : /$/, '')
    .replace(/[^\p{L}\p{N})]+$/u, '');
}

/** Of the ways to cut a stretch of so many nodes into copies, the one that names tell best. */
function aligned(nodes: Node[], stretch: Repeat, alike: number): Repeat {
  const { period } = stretch;
  const named = ({ first, copies }: Repeat) => {
    let letters = 0;
    let before = '';
    for (let at = first; at < first + copies * period; at += period) {
      const name = nameOf(nodes, at, at + period);
      if (name !== before) letters += name.length;
      before = name;
    }
    return letters;
  };
  let best = { repeat: stretch, letters: named(stretch) };
  for (let shift = 1; shift < Math.min(period, SHIFTS); shift++) {
    const copies = Math.floor((alike - shift) / period) + 1;
    const repeat = { first: stretch.first + shift, period, copies };
    const letters = copies > 1 ? named(repeat) : 0;
    if (letters > best.letters) best = { repeat, letters };
  }
  return best.repeat;
}

/** Every stretch in which each node is like the one a period before it: where it starts, and its length less
 * that period. */
function candidates(kinds: Int32Array): (Repeat & { alike: number })[] {
  const n = kinds.length;
  const found: (Repeat & { alike: number })[] = [];
  for (let period = 1; period <= Math.min(n >> 1, LONGEST); period++) {
    let alike = 0;
    for (let i = period; i <= n; i++) {
      if (i < n && kinds[i] === kinds[i - period]) {
        alike++;
        continue;
      }
      const copies = Math.floor(alike / period) + 1;
      if (alike >= period && (copies - 1) * period >= WORTH)
        found.push({ first: i - alike - period, period, copies, alike });
      alike = 0;
    }
  }
  return found;
}

/** Whether names tell the copies apart. */
function apart(nodes: Node[], { first, period }: Repeat): boolean {
  const name = nameOf(nodes, first, first + period);
  return name !== '' && name !== nameOf(nodes, first + period, first + 2 * period);
}

/** The repeats that fold most, none within another. */
export function repeatsOf(profile: Profile): Repeat[] {
  const { nodes } = profile;
  const taken = new Uint8Array(nodes.length);
  const saves = ({ copies, period }: Repeat) => (copies - 1) * period;
  const chosen: Repeat[] = [];
  for (const { alike, ...stretch } of candidates(kindsOf(profile)).sort((a, b) => saves(b) - saves(a))) {
    if (taken.subarray(stretch.first, stretch.first + stretch.copies * stretch.period).some(Boolean)) continue;
    const one = aligned(nodes, stretch, alike);
    const end = one.first + one.copies * one.period;
    if (taken.subarray(one.first, end).some(Boolean)) continue;
    taken.fill(1, one.first, end);
    /* twice a convolution and its activation within a layer is no block */
    if (one.copies >= MANY || apart(nodes, one)) chosen.push(one);
  }
  return chosen.sort((a, b) => a.first - b.first);
}

/** "h_0 … 11" of h_0 and h_11. */
function range(first: string, last: string): string {
  const number = /\d+$/.exec(last)?.[0];
  const stem = last.slice(0, last.length - (number?.length ?? 0));
  return number && /^\d+$/.test(first.slice(stem.length)) && first.startsWith(stem)
    ? `${first} … ${number}`
    : `${first} … ${last}`;
}

export function boxesOf(profile: Profile, repeats: Repeat[], unfolded: Unfolded): Box[] {
  const { nodes } = profile;
  const boxes: Box[] = [];
  const alone = (from: number, to: number) => {
    for (let v = from; v < to; v++)
      boxes.push({ first: v, end: v + 1, label: nodes[v]?.id ?? '', repeat: -1, copy: -1 });
  };
  let next = 0;
  repeats.forEach(({ first, period, copies }, repeat) => {
    alone(next, first);
    next = first + copies * period;
    const open = unfolded.get(repeat);
    const named = apart(nodes, { first, period, copies });
    const copyName = (k: number) =>
      named ? nameOf(nodes, first + k * period, first + (k + 1) * period) : (nodes[first + k * period]?.id ?? '');
    if (!open) {
      const label = range(copyName(0), copyName(copies - 1));
      boxes.push({ first, end: next, label, repeat, copy: -1 });
      return;
    }
    for (let k = 0; k < copies; k++) {
      const [from, to] = [first + k * period, first + (k + 1) * period];
      if (period === 1 || open.has(k)) alone(from, to);
      else boxes.push({ first: from, end: to, label: copyName(k), repeat, copy: k });
    }
  });
  alone(next, nodes.length);
  return boxes;
}

/** By node, its box. */
export function boxOfNode(boxes: Box[], n: number): Int32Array {
  const of = new Int32Array(n);
  boxes.forEach((box, b) => of.fill(b, box.first, box.end));
  return of;
}

/** from, to, from, to… between boxes, each pair once; graph inputs are no nodes. */
export function edgesOf(profile: Profile, of: Int32Array): Uint32Array {
  const index = new Map(profile.nodes.map((node, v) => [node.id, v]));
  const edges: number[] = [];
  const seen = new Set<number>();
  profile.nodes.forEach((node, v) => {
    for (const input of new Set(node.inputs)) {
      const from = of[index.get(input) ?? -1];
      const to = of[v] ?? 0;
      if (from === undefined || from === to || seen.has(from * of.length + to)) continue;
      seen.add(from * of.length + to);
      edges.push(from, to);
    }
  });
  return Uint32Array.from(edges);
}

/** Where the backward of a joint graph begins: past the place over which most edges reach, and what reads only what
 * stands right before it. */
export function turnOf(profile: Profile): number {
  const n = profile.nodes.length;
  if (profile.graph !== 'joint') return n;
  const edges = edgesOf(profile, Int32Array.from({ length: n }, (_, v) => v));
  const over = new Int32Array(n + 1);
  for (let e = 0; e < edges.length; e += 2) {
    const [from = 0, to = 0] = [edges[e], edges[e + 1]];
    over[from + 1] = (over[from + 1] ?? 0) + 1;
    over[to + 1] = (over[to + 1] ?? 0) - 1;
  }
  for (let v = 1; v <= n; v++) over[v] = (over[v] ?? 0) + (over[v - 1] ?? 0);
  let turn = over.indexOf(Math.max(...over));
  const read = new Map<number, number>();
  for (let e = 0; e < edges.length; e += 2) {
    const [from = 0, to = 0] = [edges[e], edges[e + 1]];
    read.set(to, Math.min(read.get(to) ?? from, from));
  }
  while (turn < n && (read.get(turn) ?? turn) >= turn - 1) turn++;
  return turn;
}
