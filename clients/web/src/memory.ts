/** Memory over the course of a schedule, stacked by kind or by layer, with the line of the budget. */

import { amount, time } from './format';
import { type Replay } from './replay';
import type { SpanView } from './span_view';
import { GUTTER, RIGHT } from './stretch';
import { colour } from './theme';

export type Grouping = 'kind' | 'layer';

export interface Band {
  name: string;
  ink: () => string;
  /** By operation: bytes of it and of all bands below while it runs. */
  top: Float64Array;
}

/** Room for the axis below. */
const FOOT = 24;
const HEAD = 8;
/** More layers than that are put together with their neighbours. */
const LAYERS = 24;

/* ---- what the bands are ---- */

/** From the bottom up. */
const KINDS: { name: string; of: string[] }[] = [
  { name: 'inputs', of: ['input'] },
  { name: 'states', of: ['state'] },
  { name: 'outputs', of: ['out'] },
  { name: 'saved', of: ['saved'] },
  { name: 'gradients', of: ['grad', 'input_grad'] },
  { name: 'workspace', of: ['workspace'] },
];

/** The layer of a node by its name: up to the first number, "h_0" of h_0_ln1 and of d(h_0_ln1). */
function layerOf(id: string): string {
  const name = /^\w+\((.*)\)$/.exec(id)?.[1] ?? id;
  return /^.*?\d+(?=[^\p{L}\p{N}]|$)/u.exec(name)?.[0] ?? name;
}

interface Grouped {
  names: string[];
  inks: (() => string)[];
  /** The band of a value, -1 if none. */
  of: (kind: string, index: number) => number;
}

function byKind(): Grouped {
  return {
    names: KINDS.map(({ name }) => name),
    inks: KINDS.map(
      ({ of }) =>
        () =>
          colour(`value-${of[0]}`),
    ),
    of: (kind) => KINDS.findIndex(({ of }) => of.includes(kind)),
  };
}

/** Neighbours differ in lightness, those further apart in hue. */
function layerInk(i: number, n: number): string {
  const dark = document.documentElement.dataset['theme'] === 'dark';
  return `hsl(${Math.round(205 + (290 * i) / n)} ${dark ? 42 : 48}% ${(dark ? 40 : 50) + (i % 2 ? 9 : 0)}%)`;
}

function byLayer(replay: Replay): Grouped {
  const layers = replay.profile.nodes.map((node) => layerOf(node.id));
  const distinct = [...new Set(layers)];
  const each = Math.ceil(distinct.length / LAYERS);
  const count = Math.ceil(distinct.length / each);
  const place = new Map(distinct.map((layer, i) => [layer, 1 + Math.floor(i / each)]));
  const named = Array.from({ length: count }, (_, i) => {
    const last = distinct[Math.min((i + 1) * each, distinct.length) - 1];
    return each === 1 ? (distinct[i] ?? '') : `${distinct[i * each]} … ${last}`;
  });
  return {
    names: ['inputs and states', ...named],
    inks: [() => colour('value-input'), ...named.map((_, i) => () => layerInk(i, count))],
    of: (kind, index) => (kind.startsWith('input') || kind === 'state' ? 0 : (place.get(layers[index] ?? '') ?? -1)),
  };
}

/** The bands, lowest first; without values, one of all memory. */
export function bandsOf(replay: Replay, grouping: Grouping): Band[] {
  const { n, values, during } = replay;
  if (values.length === 0) return [{ name: 'memory', ink: () => colour('value-out'), top: Float64Array.from(during) }];
  const { names, inks, of } = grouping === 'kind' ? byKind() : byLayer(replay);
  const bands = names.map((name, g) => ({ name, ink: inks[g] ?? (() => ''), top: new Float64Array(n + 1) }));
  const used = bands.map(() => false);
  for (const [kind, index, size, first, last] of values) {
    const g = of(kind, index);
    const top = bands[g]?.top;
    if (!top) continue;
    used[g] = true;
    top[Math.max(0, first)] = (top[Math.max(0, first)] ?? 0) + size;
    top[last + 1] = (top[last + 1] ?? 0) - size;
  }
  const kept = bands.filter((_, g) => used[g]);
  kept.forEach(({ top }, g) => {
    for (let i = 1; i <= n; i++) top[i] = (top[i] ?? 0) + (top[i - 1] ?? 0);
    const below = kept[g - 1]?.top;
    if (below) for (let i = 0; i <= n; i++) top[i] = (top[i] ?? 0) + (below[i] ?? 0);
  });
  return kept;
}

/* ---- drawing ---- */

function scaleOf(replay: Replay, height: number): { most: number; y: (bytes: number) => number } {
  const most = replay.budget > 3 * replay.peak ? 1.12 * replay.peak : 1.06 * Math.max(replay.budget, replay.peak);
  return { most, y: (bytes) => height - FOOT - (bytes / most) * (height - FOOT - HEAD) };
}

/** The band at a height of the chart while an operation runs; -1 if none. */
export function bandAt(bands: Band[], replay: Replay, operation: number, y: number, height: number): number {
  const scale = scaleOf(replay, height);
  if (y > scale.y(0)) return -1;
  return bands.findIndex(({ top }) => scale.y(top[operation] ?? 0) <= y);
}

interface Stretch {
  x: number;
  end: number;
  operation: number;
}

/** Which operation is shown where: of those that share a pixel, the one with the most memory. */
function stretchesOf(replay: Replay, view: SpanView, width: number): Stretch[] {
  const shown = new Int32Array(Math.ceil(width)).fill(-1);
  const { from, to } = view.spans;
  for (let i = 0; i < replay.n; i++) {
    if ((to[i] ?? 0) < view.from || (from[i] ?? 0) > view.to) continue;
    const x = Math.max(GUTTER, Math.floor(view.position(from[i] ?? 0, width)));
    const end = Math.min(width - RIGHT, Math.max(x + 1, Math.floor(view.position(to[i] ?? 0, width))));
    for (let at = x; at < end; at++)
      if ((replay.during[i] ?? 0) > (replay.during[shown[at] ?? -1] ?? -1)) shown[at] = i;
  }
  const found: Stretch[] = [];
  shown.forEach((operation, x) => {
    const last = found[found.length - 1];
    if (last?.operation === operation && last.end === x) last.end++;
    else if (operation >= 0) found.push({ x, end: x + 1, operation });
  });
  return found;
}

/** 1, 2 or 5 times a power of ten; of bytes, a power of two: at least so large. */
function niceStep(least: number, binary: boolean): number {
  if (binary) return 2 ** Math.ceil(Math.log2(Math.max(1, least)));
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= least) ?? 10);
}

function drawAxes(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  replay: Replay,
  view: SpanView,
): void {
  const { most, y } = scaleOf(replay, height);
  context.font = '11px system-ui, sans-serif';
  context.strokeStyle = colour('line-faint');
  context.lineWidth = 1;
  context.fillStyle = colour('ink-2');
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  const step = niceStep(replay.pebbles ? Math.max(1, most / 6) : most / 6, !replay.pebbles);
  context.beginPath();
  for (let value = 0; value <= most; value += step) {
    context.moveTo(GUTTER, Math.round(y(value)) + 0.5);
    context.lineTo(width - RIGHT, Math.round(y(value)) + 0.5);
    context.fillText(amount(value, replay.pebbles), GUTTER - 8, y(value));
  }
  context.textAlign = 'center';
  context.textBaseline = 'bottom';
  const length = view.to - view.from;
  const ticks = Math.max(1, (width - GUTTER - RIGHT) / 90);
  const across = niceStep(view.axis === 'time' ? length / ticks : Math.max(1, length / ticks), false);
  for (let value = Math.ceil(view.from / across) * across; value <= view.to; value += across) {
    const x = Math.round(view.position(value, width)) + 0.5;
    context.moveTo(x, HEAD);
    context.lineTo(x, height - FOOT + 4);
    const text = view.axis === 'time' ? time(Number(value.toPrecision(12)), replay.timeUnit) : String(value);
    if (x + 30 < width) context.fillText(text, x, height - 4);
  }
  context.stroke();
}

function drawBudget(context: CanvasRenderingContext2D, width: number, height: number, replay: Replay): void {
  const y = scaleOf(replay, height).y(replay.budget);
  if (y < 0) return;
  context.strokeStyle = context.fillStyle = colour('budget');
  context.lineWidth = 1.5;
  context.setLineDash([6, 4]);
  context.beginPath();
  context.moveTo(GUTTER, y);
  context.lineTo(width - RIGHT, y);
  context.stroke();
  context.setLineDash([]);
  context.textAlign = 'right';
  context.textBaseline = y < 22 ? 'top' : 'bottom';
  context.fillText(`budget ${amount(replay.budget, replay.pebbles)}`, width - RIGHT - 4, y + (y < 22 ? 3 : -3));
}

export function drawMemory(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  bands: Band[],
  replay: Replay,
  view: SpanView,
): void {
  context.fillStyle = colour('paper');
  context.fillRect(0, 0, width, height);
  drawAxes(context, width, height, replay, view);
  const { y } = scaleOf(replay, height);
  const marked = view.foundBytes;
  const stretches = stretchesOf(replay, view, width);
  context.globalAlpha = marked ? 0.35 : 1;
  bands.forEach(({ ink, top }, g) => {
    const below = bands[g - 1]?.top;
    context.fillStyle = ink();
    context.beginPath();
    for (const { x, end, operation } of stretches) {
      const high = y(top[operation] ?? 0);
      const low = y(below?.[operation] ?? 0);
      if (low - high >= 0.2) context.rect(x, high, end - x, low - high);
    }
    context.fill();
  });
  context.globalAlpha = 1;
  if (marked) {
    context.fillStyle = colour('accent');
    for (const { x, end, operation } of stretches) {
      const high = y(marked[operation] ?? 0);
      context.fillRect(x, high, end - x, y(0) - high);
    }
  }
  drawBudget(context, width, height, replay);
}

/* ---- sums over a stretch ---- */

export interface Sums {
  length: number;
  /** By act: operations that run in it, and their time in it. */
  acts: { runs: number; time: number }[];
  most: number;
  mostAt: number;
  /** Over time. */
  mean: number;
}

export function sumsOf(replay: Replay, view: SpanView, [from, to]: [number, number]): Sums {
  const own = view.axis === 'time' ? replay.stream : view.spans;
  const sums: Sums = { length: 0, acts: [], most: 0, mostAt: -1, mean: 0 };
  let weight = 0;
  for (let i = 0; i < replay.n; i++) {
    const [start, end] = [own.from[i] ?? 0, own.to[i] ?? 0];
    if (end < from || start > to || (end === from && start < from) || (start === to && end > to)) continue;
    const act = (sums.acts[replay.acts[i] ?? 0] ??= { runs: 0, time: 0 });
    const taken = (replay.stream.to[i] ?? 0) - (replay.stream.from[i] ?? 0);
    const time = view.axis === 'time' ? Math.min(end, to) - Math.max(start, from) : taken;
    act.runs++;
    act.time += time;
    const during = replay.during[i] ?? 0;
    if (during > sums.most) [sums.most, sums.mostAt] = [during, i];
    const clock = Math.min(replay.clock.to[i] ?? 0, view.axis === 'time' ? to : Infinity);
    const seen = Math.max(0, clock - Math.max(replay.clock.from[i] ?? 0, view.axis === 'time' ? from : 0));
    weight += seen;
    sums.mean += seen * during;
  }
  sums.length = view.axis === 'time' ? to - from : weight;
  sums.mean = weight > 0 ? sums.mean / weight : sums.most;
  return sums;
}
