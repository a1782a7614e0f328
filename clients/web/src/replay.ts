/** A schedule as it runs: what each operation is, when it runs, what is in memory. */

import type { Operation, Profile, Schedule, Timeline, Value } from './types';

export const FORWARD = 0;
export const RECOMPUTE = 1;
export const BACKWARD = 2;
export const DROP = 3;
export const TO_HOST = 4;
export const TO_DEVICE = 5;
export const STATE = 6;

/* the words of "remat show" */
export const ACT_NAMES = ['forward', 'recompute', 'backward', 'drop', 'copy to host', 'copy back', 'state'];
export const ACT_COLOURS = ['forward', 'again', 'backward', 'drop', 'to-host', 'to-device', 'state'];

export const VALUE_KINDS = ['out', 'saved', 'grad', 'workspace', 'input', 'input_grad', 'state'];
export const VALUE_NAMES: Record<string, string> = {
  out: 'output',
  saved: 'saved',
  grad: 'gradient',
  workspace: 'workspace',
  input: 'input',
  input_grad: 'gradient of an input',
  state: 'state',
};

const WORDS: Record<string, string> = {
  F: 'forward',
  A: 'forward, save',
  B: 'backward',
  D: 'drop',
  X: 'drop saved',
  O: 'copy to host',
  P: 'copy back',
  S: 'save state',
  R: 'restore state',
};

const VALUE_WORDS: Record<string, string> = {
  out: 'output of',
  saved: 'saved values of',
  grad: 'gradient of',
  workspace: 'workspace of',
  input: 'input',
  input_grad: 'gradient of input',
  state: 'state',
};

/** Where operations begin and end on some axis. */
export interface Spans {
  from: Float64Array;
  to: Float64Array;
}

export interface Replay {
  id: string;
  n: number;
  pebbles: boolean;
  timeUnit: string;
  operations: Operation[];
  acts: Uint8Array;
  /** On its own stream. */
  stream: Spans;
  /** On the compute stream, which memory follows: never backwards from one operation to the next. */
  clock: Spans;
  during: number[];
  after: number[];
  budget: number;
  peak: number;
  peakOperation: number;
  makespan: number;
  values: Value[];
  /** By value; empty without a layout. */
  offsets: number[];
  arena: number;
  profile: Profile;
  /** By node. */
  runs: number[];
  recomputed: number[];
}

/* ---- names ---- */

function targetOf(profile: Profile, operation: Operation): string {
  const [letter, second, third, result] = operation;
  if (letter === 'S' || letter === 'R') return `${profile.states?.[Number(second)]?.id ?? second}, version ${third}`;
  const node = typeof second === 'number' ? (profile.nodes[second]?.id ?? String(second)) : '';
  if (third === undefined) return node;
  if (node) return `${node} by ${third}`;
  if (second === 'input') return `input ${profile.inputs?.[Number(third)]?.id ?? third}`;
  if (second === 'output') return `result ${result} of ${profile.nodes[Number(third)]?.id ?? third}`;
  return `${second} of ${profile.nodes[Number(third)]?.id ?? third}`;
}

const PEBBLE_WORDS: Record<string, string> = {
  F: 'forward',
  S: 'copy',
  T: 'turn',
  B: 'backward',
  D: 'drop',
  Db: 'drop gradient',
};

/** Of the pebble model: the branch, and the step in it. */
function pebbleName([letter, branch, step]: Operation): [string, string] {
  const whose = branch === undefined ? '' : `branch ${branch}${step === undefined ? '' : `, step ${step}`}`;
  return [PEBBLE_WORDS[String(letter)] ?? String(letter), whose];
}

/** Words and whose: "backward", "conv1". */
export function operationName(replay: Replay, i: number): [string, string] {
  const operation = replay.operations[i] ?? [];
  const [words, whose] = replay.pebbles
    ? pebbleName(operation)
    : [WORDS[String(operation[0])] ?? String(operation[0]), targetOf(replay.profile, operation)];
  return [replay.acts[i] === RECOMPUTE ? words.replace('forward', 'recompute') : words, whose];
}

/** The node that an operation is of; -1 if none: of an input, a state, or in the pebble model. */
export function nodeOf({ operations, pebbles }: Replay, i: number): number {
  const [letter, second, third] = operations[i] ?? [];
  if (pebbles || letter === 'S' || letter === 'R' || second === 'input') return -1;
  return Number(typeof second === 'number' ? second : third);
}

export function operationText(replay: Replay, i: number): string {
  return operationName(replay, i).join(' ');
}

export function valueName(replay: Replay, [kind, index]: Value): [string, string] {
  const { inputs, states, nodes } = replay.profile;
  const list = kind.startsWith('input') ? inputs : kind === 'state' ? states : nodes;
  return [VALUE_WORDS[kind] ?? kind, list?.[index]?.id ?? String(index)];
}

/* ---- making it ---- */

function actOf(operation: Operation, seen: Set<string>): number {
  const letter = operation[0];
  if (letter === 'F' || letter === 'A') {
    /* a node computed by another of its implementations is computed again; a pebble step has a number there */
    const what = operation.slice(1, typeof operation[2] === 'string' ? 2 : 3).join();
    const again = seen.has(what);
    seen.add(what);
    return again ? RECOMPUTE : FORWARD;
  }
  if (letter === 'B' || letter === 'T') return BACKWARD;
  if (letter === 'O') return TO_HOST;
  if (letter === 'P') return TO_DEVICE;
  return letter === 'S' || letter === 'R' ? STATE : DROP;
}

/** Copies run on streams of their own; for memory they happen when compute comes to them. */
function clockOf(timeline: Timeline, acts: Uint8Array): Spans {
  const n = acts.length;
  const from = new Float64Array(n);
  const to = new Float64Array(n);
  let now = 0;
  for (let i = 0; i < n; i++) {
    const copy = acts[i] === TO_HOST || acts[i] === TO_DEVICE;
    from[i] = copy ? now : Math.max(now, timeline.start[i] ?? now);
    now = copy ? now : Math.max(now, timeline.end[i] ?? now);
    to[i] = now;
  }
  return { from, to };
}

export function makeReplay(schedule: Schedule, timeline: Timeline, profile: Profile): Replay {
  const operations = timeline.operations;
  const n = operations.length;
  const seen = new Set<string>();
  const acts = Uint8Array.from(operations, (operation) => actOf(operation, seen));
  const runs = profile.nodes.map(() => 0);
  const recomputed = profile.nodes.map(() => 0);
  const pebbles = schedule.model === 'pebble';
  for (let i = 0; i < n && !pebbles; i++) {
    const v = Number(operations[i]?.[1]);
    if (acts[i] === FORWARD || acts[i] === RECOMPUTE) runs[v] = (runs[v] ?? 0) + 1;
    if (acts[i] === RECOMPUTE) recomputed[v] = (recomputed[v] ?? 0) + (timeline.end[i] ?? 0) - (timeline.start[i] ?? 0);
  }
  return {
    id: schedule.schedule_id,
    n,
    pebbles,
    timeUnit: timeline.time_unit,
    operations,
    acts,
    stream: { from: Float64Array.from(timeline.start), to: Float64Array.from(timeline.end) },
    clock: clockOf(timeline, acts),
    during: timeline.memory_during,
    after: timeline.memory_after,
    budget: timeline.budget,
    peak: timeline.peak,
    peakOperation: timeline.peak_operation,
    makespan: timeline.makespan,
    values: timeline.values ?? [],
    offsets: (schedule.allocations ?? []).map((allocation) => allocation[3]),
    arena: schedule.arena ?? 0,
    profile,
    runs,
    recomputed,
  };
}

/** Indices of the values alive at an operation, the largest first. */
export function aliveAt({ values }: Replay, i: number): number[] {
  const alive: number[] = [];
  values.forEach(([, , , first, last], k) => {
    if (first <= i && i <= last) alive.push(k);
  });
  return alive.sort((a, b) => (values[b]?.[2] ?? 0) - (values[a]?.[2] ?? 0));
}

/* ---- what becomes of each node ---- */

export const FATES = ['kept', 'not kept', 'recomputed', 'offloaded'];
export const FATE_COLOURS = ['forward', 'once', 'again', 'to-host'];

/** By node and fate, how much it is so: a half each where it is recomputed and offloaded. Not kept is
 * what runs once and is gone when the backward begins; a joint graph has no such moment. */
export function fatesOf(replay: Replay): number[][] {
  const { acts, values, profile, runs } = replay;
  const turn = acts.indexOf(BACKWARD);
  const kept = new Set(values.flatMap(([, v, , first, last]) => (first < turn && turn <= last ? [v] : [])));
  const offloaded = new Set<number>();
  acts.forEach((act, i) => act === TO_HOST && offloaded.add(nodeOf(replay, i)));
  return profile.nodes.map((_node, v) => {
    const again = (runs[v] ?? 0) > 1;
    const away = offloaded.has(v);
    if (again || away) return [0, 0, again ? (away ? 0.5 : 1) : 0, away ? (again ? 0.5 : 1) : 0];
    return turn < 0 || kept.has(v) ? [1, 0, 0, 0] : [0, 1, 0, 0];
  });
}

/** By operation: bytes of the values of some nodes. */
export function bytesOf(replay: Replay, found: boolean[]): Float64Array {
  const bytes = new Float64Array(replay.n + 1);
  for (const [kind, index, size, first, last] of replay.values) {
    if (!found[index] || kind.startsWith('input') || kind === 'state') continue;
    bytes[Math.max(0, first)] = (bytes[Math.max(0, first)] ?? 0) + size;
    bytes[last + 1] = (bytes[last + 1] ?? 0) - size;
  }
  for (let i = 1; i <= replay.n; i++) bytes[i] = (bytes[i] ?? 0) + (bytes[i - 1] ?? 0);
  return bytes;
}

/* ---- the axis ---- */

export type Axis = 'time' | 'operations';

/** Spans on the axis: of operations on their own streams, or as memory sees them. */
export function spansOn(replay: Replay, axis: Axis, own: boolean): Spans {
  if (axis === 'time') return own ? replay.stream : replay.clock;
  return {
    from: Float64Array.from({ length: replay.n }, (_, i) => i),
    to: Float64Array.from({ length: replay.n }, (_, i) => i + 1),
  };
}

/** Index of the first entry above x in an ascending list. */
export function upperBound(list: Float64Array, x: number): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((list[middle] ?? 0) <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The operation at x: the last that has begun, and rather one that takes time. */
export function operationAt({ from, to }: Spans, x: number): number {
  const last = Math.max(0, upperBound(from, x) - 1);
  for (let i = last; i >= 0 && last - i < 64; i--) if ((to[i] ?? 0) > x || i === 0) return (to[i] ?? 0) > x ? i : last;
  return last;
}

/** The corners of the curve of memory: what is there before each operation, while it runs, and after it. */
export function memoryCorners(replay: Replay, { from, to }: Spans): [Float64Array, Float64Array] {
  const x = new Float64Array(4 * replay.n);
  const y = new Float64Array(4 * replay.n);
  for (let i = 0; i < replay.n; i++) {
    x[4 * i] = x[4 * i + 1] = from[i] ?? 0;
    x[4 * i + 2] = x[4 * i + 3] = to[i] ?? 0;
    y[4 * i] = replay.after[i - 1] ?? replay.during[i] ?? 0;
    y[4 * i + 1] = y[4 * i + 2] = replay.during[i] ?? 0;
    y[4 * i + 3] = replay.after[i] ?? 0;
  }
  return [x, y];
}
