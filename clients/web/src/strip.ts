/** Draws layers against operations: a row for each node, a mark where it runs or is copied, and a bar as long as what it
 * made is kept. */

import { ACT_COLOURS, DROP, spansOn, STATE, type Replay, type Spans } from './replay';
import type { SpanView } from './span_view';
import { GUTTER, RIGHT } from './stretch';
import { colour } from './theme';

export const STRIP = 110;
const PAD = 4;

export interface Strip {
  /** Of operations on their own streams. */
  spans: Spans;
  /** By act, the operations of nodes. */
  marks: number[][];
}

export function stripOf(replay: Replay, { axis, nodes }: SpanView): Strip {
  const marks: number[][] = ACT_COLOURS.map(() => []);
  nodes.forEach((node, i) => node >= 0 && marks[replay.acts[i] ?? 0]?.push(i));
  marks[DROP] = marks[STATE] = [];
  return { spans: spansOn(replay, axis, true), marks };
}

export function drawStrip(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  { marks, spans }: Strip,
  replay: Replay,
  view: SpanView,
): void {
  context.fillStyle = colour('sunk');
  context.fillRect(0, 0, width, height);
  context.font = '11px system-ui, sans-serif';
  context.fillStyle = colour('ink-2');
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  context.fillText('layers', GUTTER - 8, height / 2);
  const tall = (height - 2 * PAD) / replay.profile.nodes.length;
  let [left, right, top] = [0, 0, 0]; // what falls into the pixels of the bar before is not drawn
  const bar = (node: number, begins: number, ends: number, least: number) => {
    if (ends < view.from || begins > view.to) return;
    const x = Math.max(GUTTER, view.position(begins, width));
    const room = Math.max(least, Math.min(width - RIGHT, view.position(ends, width)) - x);
    const y = PAD + node * tall;
    if (room <= 0.3) return;
    if ((x | 0) === left && ((x + room) | 0) === right && (y | 0) === top) return;
    left = x | 0;
    right = (x + room) | 0;
    top = y | 0;
    if (view.found) context.globalAlpha = view.found[node] ? 1 : 0.2;
    context.fillRect(x, y, room, Math.max(1, tall > 3 ? tall - 1 : tall));
  };
  context.fillStyle = colour('kept');
  for (const [kind, node, , first, last] of replay.values)
    if (kind === 'out' || kind === 'saved') bar(node, view.spans.to[first] ?? 0, view.spans.from[last] ?? 0, 0);
  marks.forEach((operations, act) => {
    context.fillStyle = colour(ACT_COLOURS[act] ?? '');
    for (const i of operations) bar(view.nodes[i] ?? 0, spans.from[i] ?? 0, spans.to[i] ?? 0, 1);
  });
  context.globalAlpha = 1;
}
