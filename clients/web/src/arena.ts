/** Draws the arena: every value a rectangle, its life across, its address upwards. */

import { amount } from './format';
import { VALUE_KINDS, type Replay } from './replay';
import type { SpanView } from './span_view';
import { GUTTER, RIGHT } from './stretch';
import { colour } from './theme';

const PAD = 4;

interface Rectangles {
  /** By kind of VALUE_KINDS: indices of values. */
  byKind: number[][];
}

export function rectanglesOf(replay: Replay): Rectangles {
  const byKind: number[][] = VALUE_KINDS.map(() => []);
  replay.values.forEach(([kind], k) => byKind[VALUE_KINDS.indexOf(kind)]?.push(k));
  return { byKind };
}

/** The value at a height of the chart while an operation runs; -1 if none. */
export function valueAt(replay: Replay, operation: number, y: number, height: number): number {
  const address = ((height - PAD - y) / (height - 2 * PAD)) * replay.arena;
  return replay.values.findIndex(([, , size, first, last], k) => {
    const offset = replay.offsets[k] ?? 0;
    return first <= operation && operation <= last && offset <= address && address < offset + size;
  });
}

export function drawArena(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  rectangles: Rectangles,
  replay: Replay,
  view: SpanView,
): void {
  context.fillStyle = colour('sunk');
  context.fillRect(0, 0, width, height);
  context.font = '11px system-ui, sans-serif';
  context.textAlign = 'right';
  context.fillStyle = colour('ink-2');
  context.textBaseline = 'top';
  context.fillText(amount(replay.arena), GUTTER - 8, PAD);
  context.textBaseline = 'bottom';
  context.fillText('0', GUTTER - 8, height - PAD);
  const scale = (height - 2 * PAD) / replay.arena;
  const { from, to } = view.spans;
  const right = width - RIGHT;
  rectangles.byKind.forEach((list, kind) => {
    context.fillStyle = colour(`value-${VALUE_KINDS[kind] ?? 'out'}`);
    for (const k of list) {
      const value = replay.values[k];
      if (!value) continue;
      const start = from[Math.max(0, value[3])] ?? 0;
      const end = to[value[4]] ?? 0;
      if (end < view.from || start > view.to) continue;
      const x = Math.max(GUTTER, view.position(start, width));
      const room = Math.min(right, view.position(end, width)) - x;
      const tall = value[2] * scale;
      if (room < 0.3 && tall < 2) continue;
      const y = height - PAD - ((replay.offsets[k] ?? 0) + value[2]) * scale;
      context.fillRect(x, y, Math.max(0.5, room > 3 ? room - 0.6 : room), Math.max(0.5, tall > 3 ? tall - 0.6 : tall));
    }
  });
}
