/** Draws the step of a pipeline: for each rank what it runs when, and the memory it takes meanwhile. */

import { GUTTER, RIGHT, Stretch } from './stretch';
import { colour } from './theme';

/** What a rank does: F or B, of which micro-batch, from and to which second, most bytes meanwhile and until the next. */
export type Pass = ['F' | 'B', number, number, number, number, number];

export interface Lane {
  passes: Pass[];
  /** Seconds of each backward in which forwards run again. */
  again: number;
}

/** The part of the step that is seen, and the pass under the pointer. */
export class StepView extends Stretch {
  hover: { rank: number; pass: number } | undefined;

  constructor(
    readonly lanes: Lane[],
    readonly end: number,
  ) {
    super();
    this.all();
  }

  get least(): number {
    return this.end / Math.max(100, this.lanes[0]?.passes.length ?? 0);
  }

  setHover(hover: { rank: number; pass: number } | undefined): void {
    if (hover?.rank === this.hover?.rank && hover?.pass === this.hover?.pass) return;
    this.hover = hover;
    this.tell();
  }
}

/** Past so many ranks rows are lower. */
const MANY = 32;
const GAP = 6;

function tallOf(ranks: number): { box: number; memory: number } {
  return ranks > MANY ? { box: 9, memory: 9 } : { box: 20, memory: 24 };
}

function rowOf(ranks: number): number {
  const { box, memory } = tallOf(ranks);
  return box + memory + GAP;
}

export function pipelineHeight(ranks: number): number {
  return ranks * rowOf(ranks) + GAP;
}

/** The last that begins before a moment. */
function passBefore(passes: Pass[], at: number): number {
  let [low, high] = [0, passes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((passes[middle]?.[2] ?? 0) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** The pass at a place of the drawing. */
export function passAt(view: StepView, x: number, y: number, width: number): StepView['hover'] {
  const rank = Math.floor((y - GAP / 2) / rowOf(view.lanes.length));
  const passes = view.lanes[rank]?.passes;
  if (!passes || x < GUTTER || x > width - RIGHT) return undefined;
  const at = view.value(x, width);
  const pass = passBefore(passes, at);
  return pass >= 0 && at <= (passes[pass]?.[3] ?? 0) ? { rank, pass } : undefined;
}

function drawBoxes(context: CanvasRenderingContext2D, lane: Lane, y: number, width: number, view: StepView): void {
  const { box } = tallOf(view.lanes.length);
  const followed = view.hover && view.lanes[view.hover.rank]?.passes[view.hover.pass]?.[1];
  const bar = (from: number, to: number, ink: string) => {
    context.fillStyle = colour(ink);
    context.fillRect(from, y, Math.max(0.5, to - from > 3 ? to - from - 1 : to - from), box);
  };
  const place = (at: number) => Math.max(GUTTER, Math.min(width - RIGHT, view.position(at, width)));
  let edge = -1; // what falls into a pixel that is drawn already is not
  for (let k = Math.max(0, passBefore(lane.passes, view.from)); k < lane.passes.length; k++) {
    const [kind, microbatch, from, to] = lane.passes[k] ?? ['F', 0, 0, 0];
    if (from > view.to) break;
    const [x, end] = [place(from), place(to)];
    if (end <= GUTTER || end <= edge + 0.3) continue;
    edge = end;
    context.globalAlpha = followed === undefined || followed === microbatch ? 1 : 0.35;
    const middle = kind === 'B' ? place(from + lane.again) : x;
    if (middle > x) bar(x, middle, 'again');
    bar(middle, end, kind === 'B' ? 'backward' : 'forward');
    const text = String(microbatch);
    if (box < 16 || end - x < 7 * text.length + 6) continue;
    context.fillStyle = colour('on-act');
    context.fillText(text, (x + end) / 2, y + box / 2);
  }
  context.globalAlpha = 1;
}

function drawMemoryOf(
  context: CanvasRenderingContext2D,
  lane: Lane,
  y: number,
  width: number,
  view: StepView,
  room: number,
): void {
  const { memory } = tallOf(view.lanes.length);
  const tall = (bytes: number) => (bytes / room) * (memory - 2);
  context.fillStyle = colour('memory');
  const bar = (from: number, to: number, bytes: number) => {
    const x = Math.round(Math.max(GUTTER, view.position(from, width)));
    const end = Math.round(Math.min(width - RIGHT, view.position(to, width)));
    if (end > x) context.fillRect(x, y + memory - tall(bytes), end - x, tall(bytes));
  };
  for (let k = Math.max(0, passBefore(lane.passes, view.from)); k < lane.passes.length; k++) {
    const [, , from, to, during, after] = lane.passes[k] ?? ['F', 0, 0, 0, 0, 0];
    if (from > view.to) break;
    bar(from, to, during);
    bar(to, lane.passes[k + 1]?.[2] ?? view.end, after);
  }
  context.fillStyle = colour('budget');
  context.fillRect(GUTTER, y + 1, width - GUTTER - RIGHT, 1);
}

/** room: bytes of every rank's device. */
export function drawPipeline(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  view: StepView,
  room: number,
): void {
  const ranks = view.lanes.length;
  const { box, memory } = tallOf(ranks);
  context.fillStyle = colour('sunk');
  context.fillRect(0, 0, width, height);
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  view.lanes.forEach((lane, rank) => {
    const y = GAP + rank * rowOf(ranks);
    if (ranks <= MANY || rank % 4 === 0) {
      context.textAlign = 'right';
      context.fillStyle = colour('ink-2');
      context.fillText(`rank ${rank}`, GUTTER - 8, y + box / 2);
      if (ranks <= MANY) context.fillText('memory', GUTTER - 8, y + box + memory / 2);
    }
    context.textAlign = 'center';
    drawBoxes(context, lane, y, width, view);
    drawMemoryOf(context, lane, y + box, width, view, room);
  });
}
