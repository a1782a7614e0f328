/** Draws a laid out graph: only what is seen, and no finer than can be seen. */

import type { Camera } from './camera';
import { heat } from './heat';
import type { Folded } from './layout';
import { colour } from './theme';

export const WIDTH = 112;
export const HEIGHT = 26;

export interface Picture {
  layout: Folded;
  /** from, to, from, to… */
  edges: Uint32Array;
  values: number[];
  most: number;
  labels: string[];
  selected: number;
  hovered: number;
}

/** The node at a point of the plane, -1 if none. */
export function nodeAt(layout: Folded, x: number, y: number): number {
  for (let v = 0; v < layout.x.length; v++)
    if (Math.abs((layout.x[v] ?? 0) - x) <= WIDTH / 2 && Math.abs((layout.y[v] ?? 0) - y) <= HEIGHT / 2) return v;
  return -1;
}

interface Window {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

function traceEdge({ corners, first }: Folded, e: number, seen: Window, context: CanvasRenderingContext2D): void {
  let broken = true;
  for (let i = first[e] ?? 0; i < (first[e + 1] ?? 0); i += 2) {
    const x = corners[i] ?? NaN;
    const y = corners[i + 1] ?? NaN;
    if (Number.isNaN(x)) {
      broken = true;
      continue;
    }
    const nextY = corners[i + 3] ?? y;
    const out = (y < seen.top && nextY < seen.top) || (y > seen.bottom && nextY > seen.bottom);
    if (broken) context.moveTo(x, y);
    else context.lineTo(x, y);
    broken = out;
  }
}

function drawEdges(
  context: CanvasRenderingContext2D,
  { layout, edges, selected, hovered }: Picture,
  seen: Window,
  scale: number,
): void {
  const near = (e: number) => {
    const [from, to] = [edges[2 * e], edges[2 * e + 1]];
    return from === selected || to === selected || from === hovered || to === hovered;
  };
  const n = edges.length / 2;
  for (const special of [false, true]) {
    context.beginPath();
    for (let e = 0; e < n; e++) if (near(e) === special) traceEdge(layout, e, seen, context);
    context.strokeStyle = colour(special ? 'accent' : 'line');
    context.lineWidth = Math.max(special ? 1.6 : 1, (special ? 1.4 : 0.7) / scale);
    context.stroke();
  }
}

function drawNodes(context: CanvasRenderingContext2D, picture: Picture, seen: Window, scale: number): void {
  const { layout, values, most, labels, selected, hovered } = picture;
  const readable = scale * 11 >= 6;
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  context.textAlign = 'center';
  for (let v = 0; v < layout.x.length; v++) {
    const x = layout.x[v] ?? 0;
    const y = layout.y[v] ?? 0;
    if (x + WIDTH < seen.left || x - WIDTH > seen.right || y + HEIGHT < seen.top || y - HEIGHT > seen.bottom) continue;
    const tint = heat(most > 0 ? Math.sqrt((values[v] ?? 0) / most) : 0);
    context.fillStyle = tint.fill;
    context.fillRect(x - WIDTH / 2, y - HEIGHT / 2, WIDTH, HEIGHT);
    const special = v === selected || v === hovered;
    context.strokeStyle = colour(special ? 'accent' : 'line');
    context.lineWidth = special ? Math.max(2, 2 / scale) : 0.6 / Math.min(1, scale);
    context.strokeRect(x - WIDTH / 2, y - HEIGHT / 2, WIDTH, HEIGHT);
    if (!readable) continue;
    context.fillStyle = tint.ink;
    context.fillText(fitted(context, labels[v] ?? ''), x, y);
  }
}

const fits = new Map<string, string>();

/** The text, cut to the width of a node. */
function fitted(context: CanvasRenderingContext2D, text: string): string {
  let cut = fits.get(text);
  if (cut === undefined) {
    cut = text;
    while (cut.length > 1 && context.measureText(cut).width > WIDTH - 8) cut = `${cut.slice(0, -2)}…`;
    if (fits.size > 20000) fits.clear();
    fits.set(text, cut);
  }
  return cut;
}

export function drawGraph(
  context: CanvasRenderingContext2D,
  width: number,
  height: number,
  camera: Camera,
  picture: Picture,
): void {
  camera.resize(width, height);
  context.fillStyle = colour('sunk');
  context.fillRect(0, 0, width, height);
  const { scale, left, top } = camera;
  const seen = { left, top, right: left + width / scale, bottom: top + height / scale };
  context.save();
  context.scale(scale, scale);
  context.translate(-left, -top);
  drawEdges(context, picture, seen, scale);
  drawNodes(context, picture, seen, scale);
  context.restore();
}
