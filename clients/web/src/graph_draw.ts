/** Draws a laid out graph: only what is seen, and no finer than can be seen. */

import type { Camera } from './camera';
import { shortened } from './format';
import type { Folded } from './layout';
import { colour } from './theme';

export const WIDTH = 112;
export const HEIGHT = 26;

/** How a box looks: colours from left to right, each with its part of the width, and what is read on them. */
export interface Look {
  parts: { fill: string; share: number }[];
  ink: string;
}

export interface Picture {
  layout: Folded;
  /** from, to, from, to… */
  edges: Uint32Array;
  labels: string[];
  /** By box: the nodes within. */
  sizes: number[];
  look: (box: number) => Look;
  selected: number;
  hovered: number;
  /** By box: what was searched for; undefined when nothing is. */
  found: boolean[] | undefined;
}

/** The box at a point of the plane, -1 if none. */
export function boxAt(layout: Folded, x: number, y: number): number {
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
  for (let i = (first[e] ?? 0) + 2; i < (first[e + 1] ?? 0); i += 2) {
    const [ax, ay, bx, by] = [corners[i - 2] ?? 0, corners[i - 1] ?? 0, corners[i] ?? 0, corners[i + 1] ?? 0];
    const out =
      (ay < seen.top && by < seen.top) ||
      (ay > seen.bottom && by > seen.bottom) ||
      (ax < seen.left && bx < seen.left) ||
      (ax > seen.right && bx > seen.right);
    if (!out && broken) context.moveTo(ax, ay);
    if (!out) context.lineTo(bx, by);
    broken = out;
  }
}

/** The edges of the boxes selected and hovered come last, over the others, along their whole way. */
function drawEdges(context: CanvasRenderingContext2D, picture: Picture, seen: Window, scale: number): void {
  const { layout, edges, selected, hovered } = picture;
  const near = (e: number) => {
    const [from, to] = [edges[2 * e], edges[2 * e + 1]];
    return from === selected || to === selected || from === hovered || to === hovered;
  };
  const n = edges.length / 2;
  for (const special of [false, true]) {
    context.beginPath();
    for (let e = 0; e < n; e++) if (near(e) === special) traceEdge(layout, e, seen, context);
    context.strokeStyle = colour(special ? 'accent' : 'line');
    context.lineWidth = special ? Math.max(2, 1.8 / scale) : Math.max(1, 0.7 / scale);
    /* seen from far, lines beside each other would be one grey area */
    context.globalAlpha = special ? 1 : Math.min(1, Math.max(0.4, 2 * scale));
    context.stroke();
  }
  context.globalAlpha = 1;
}

/** Boxes that give to or take from the one selected or hovered. */
function neighbours({ edges, selected, hovered }: Picture): Set<number> {
  const found = new Set([selected, hovered]);
  for (let e = 0; e < edges.length; e += 2) {
    const [from = -1, to = -1] = [edges[e], edges[e + 1]];
    if (from === selected || from === hovered) found.add(to);
    if (to === selected || to === hovered) found.add(from);
  }
  return found;
}

function drawBox(
  context: CanvasRenderingContext2D,
  picture: Picture,
  v: number,
  outlined: boolean,
  scale: number,
): void {
  const x = (picture.layout.x[v] ?? 0) - WIDTH / 2;
  const y = (picture.layout.y[v] ?? 0) - HEIGHT / 2;
  const many = (picture.sizes[v] ?? 1) > 1;
  const { parts, ink } = picture.look(v);
  context.strokeStyle = colour(outlined ? 'accent' : 'line');
  context.lineWidth = outlined ? Math.max(2, 2 / scale) : 0.6 / Math.min(1, scale);
  if (many) {
    context.fillStyle = colour('raised');
    context.fillRect(x + 4, y + 4, WIDTH, HEIGHT);
    context.strokeRect(x + 4, y + 4, WIDTH, HEIGHT);
  }
  let left = x;
  for (const { fill, share } of parts) {
    context.fillStyle = fill;
    context.fillRect(left, y, share * WIDTH, HEIGHT);
    left += share * WIDTH;
  }
  context.strokeRect(x, y, WIDTH, HEIGHT);
  if (scale * 11 < 6) return;
  context.fillStyle = ink;
  context.fillText(fitted(context, picture.labels[v] ?? ''), x + WIDTH / 2, y + HEIGHT / 2);
}

function drawBoxes(context: CanvasRenderingContext2D, picture: Picture, seen: Window, scale: number): void {
  const { layout, found } = picture;
  const outlined = neighbours(picture);
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  context.textAlign = 'center';
  for (let v = 0; v < layout.x.length; v++) {
    const x = layout.x[v] ?? 0;
    const y = layout.y[v] ?? 0;
    if (x + WIDTH < seen.left || x - WIDTH > seen.right || y + HEIGHT < seen.top || y - HEIGHT > seen.bottom) continue;
    context.globalAlpha = found && !found[v] ? 0.25 : 1;
    drawBox(context, picture, v, outlined.has(v) || found?.[v] === true, scale);
  }
  context.globalAlpha = 1;
}

const fits = new Map<string, string>();

/** The text, cut to the width of a box. */
function fitted(context: CanvasRenderingContext2D, text: string): string {
  let cut = fits.get(text);
  if (cut === undefined) {
    cut = text;
    for (let most = text.length - 1; most > 1 && context.measureText(cut).width > WIDTH - 8; most--) cut = shortened(text, most);
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
  drawBoxes(context, picture, seen, scale);
  context.restore();
}
