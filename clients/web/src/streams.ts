/** Draws the compute stream and the copy streams: what runs when. */

import { shortened } from './format';
import {
  ACT_COLOURS,
  DROP,
  operationName,
  spansOn,
  STATE,
  TO_DEVICE,
  TO_HOST,
  upperBound,
  type Replay,
  type Spans,
} from './replay';
import type { SpanView } from './span_view';
import { GUTTER, RIGHT } from './stretch';
import { colour } from './theme';

export const ROW = 26;
const GAP = 4;

interface Lane {
  label: string;
  /** Operations in it, in their order, and where they are. */
  operations: Int32Array;
  spans: Record<'time' | 'operations', Spans>;
}

function laneOf(act: number): number {
  return act === TO_HOST ? 1 : act === TO_DEVICE ? 2 : 0;
}

function pick(spans: Spans, operations: Int32Array): Spans {
  return {
    from: Float64Array.from(operations, (i) => spans.from[i] ?? 0),
    to: Float64Array.from(operations, (i) => spans.to[i] ?? 0),
  };
}

/** The streams that the schedule uses. */
export function lanesOf(replay: Replay): Lane[] {
  const own = { time: spansOn(replay, 'time', true), operations: spansOn(replay, 'operations', true) };
  return ['compute', 'to host', 'to device'].flatMap((label, lane) => {
    const operations = Int32Array.from([...replay.acts.keys()].filter((i) => laneOf(replay.acts[i] ?? 0) === lane));
    if (lane > 0 && operations.length === 0) return [];
    return [
      { label, operations, spans: { time: pick(own.time, operations), operations: pick(own.operations, operations) } },
    ];
  });
}

export function streamsHeight(lanes: Lane[]): number {
  return lanes.length * (ROW + GAP) + GAP;
}

function drawLane(
  context: CanvasRenderingContext2D,
  lane: Lane,
  y: number,
  width: number,
  replay: Replay,
  view: SpanView,
): void {
  const { from, to } = lane.spans[view.axis];
  const ink = colour('on-act');
  const here = view.nodes[view.step] ?? -1;
  const marks: number[] = [];
  let edge = -1;
  let shown = -1;
  for (let k = Math.max(0, upperBound(to, view.from) - 1); k < from.length && (from[k] ?? 0) <= view.to; k++) {
    const i = lane.operations[k] ?? 0;
    const act = replay.acts[i] ?? 0;
    const x = Math.max(GUTTER, view.position(from[k] ?? 0, width));
    const end = Math.min(width - RIGHT, view.position(to[k] ?? 0, width));
    const thin = act === DROP || act === STATE;
    /* several to a pixel look like the first of them; backward and copies are never hidden by drops */
    if (end <= edge + 0.4 && (thin || act === shown)) continue;
    if (thin && view.axis === 'time') continue;
    context.fillStyle = colour(ACT_COLOURS[act] ?? 'forward');
    const room = end - x;
    const node = view.nodes[i] ?? -1;
    const wide = Math.max(0.6, room > 3 ? room - 1 : room);
    context.globalAlpha = view.found && !view.found[node] ? 0.2 : 1;
    context.fillRect(x, thin ? y + ROW / 3 : y, wide, thin ? ROW / 3 : ROW);
    context.globalAlpha = 1;
    edge = end;
    shown = act;
    if (node === here && node >= 0) marks.push(x, Math.max(2, wide));
    if (room < 30 || thin) continue;
    context.fillStyle = ink;
    const [, name] = operationName(replay, i);
    const fits = Math.floor((room - 6) / 6.2);
    if (name.length <= fits || fits > 12) context.fillText(shortened(name, fits), x + 4, y + ROW / 2, room - 6);
  }
  /* every run of the node that is looked at */
  context.fillStyle = colour('ink');
  for (let k = 0; k < marks.length; k += 2) context.fillRect(marks[k] ?? 0, y - GAP, marks[k + 1] ?? 0, GAP - 1);
}

export function drawStreams(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  lanes: Lane[],
  replay: Replay,
  view: SpanView,
): void {
  context.fillStyle = colour('sunk');
  context.fillRect(0, 0, width, height);
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  lanes.forEach((lane, row) => {
    const y = GAP + row * (ROW + GAP);
    context.textAlign = 'right';
    context.fillStyle = colour('ink-2');
    context.fillText(lane.label, GUTTER - 8, y + ROW / 2);
    context.textAlign = 'left';
    drawLane(context, lane, y, width, replay, view);
  });
}
