/** A schedule as a file: JSON, CSV, SVG. */

import { get } from './api';
import { amount, time } from './format';
import { ACT_COLOURS, ACT_NAMES, memoryCorners, operationText, type Replay } from './replay';
import { lanesOf } from './streams';
import { colour } from './theme';
import type { Schedule } from './types';

function save(name: string, type: string, text: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export function downloadJson(schedule: Schedule): void {
  save(`${schedule.schedule_id.slice(0, 12)}.schedule.json`, 'application/json', JSON.stringify(schedule));
}

/** For ui.perfetto.dev and chrome://tracing. */
export async function downloadTrace(id: string): Promise<void> {
  const trace = await get<unknown>(`/v1/schedules/${id}/trace`);
  save(`${id.slice(0, 12)}.trace.json`, 'application/json', JSON.stringify(trace));
}

/** A field of RFC 4180. A spreadsheet would take a text that begins like a formula for one. */
function field(text: string): string {
  const plain = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${plain.replaceAll('"', '""')}"`;
}

export function csvOf(replay: Replay): string {
  const head = 'index,operation,what,begin,end,memory_during,memory_after';
  const rows = replay.operations.map((operation, i) =>
    [
      i,
      field(operation.join(' ')),
      field(operationText(replay, i)),
      replay.stream.from[i],
      replay.stream.to[i],
      replay.during[i],
      replay.after[i],
    ].join(','),
  );
  return [head, ...rows, ''].join('\r\n');
}

export function downloadCsv(replay: Replay): void {
  save(`${replay.id.slice(0, 12)}.csv`, 'text/csv', csvOf(replay));
}

/* ---- SVG ---- */

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 960;
const MEMORY = 260;
const LEFT = 80;
const LANE = 24;

function add(parent: Element, name: string, attributes: Record<string, string | number>, text?: string): Element {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function drawMemory(svg: Element, replay: Replay, x: (value: number) => string): void {
  const most = Math.max(replay.budget, replay.peak) * 1.05;
  const y = (value: number) => (MEMORY - (value / most) * (MEMORY - 20)).toFixed(2);
  const [xs, ys] = memoryCorners(replay, replay.clock);
  const path = Array.from(xs, (value, i) => `${i ? 'L' : 'M'}${x(value)} ${y(ys[i] ?? 0)}`).join('');
  add(svg, 'path', { d: path, fill: 'none', stroke: colour('memory'), 'stroke-width': 1 });
  for (const [value, label, ink] of [
    [replay.budget, 'budget', 'budget'],
    [replay.peak, 'peak', 'ink-2'],
  ] as const) {
    add(svg, 'line', {
      x1: LEFT,
      x2: WIDTH,
      y1: y(value),
      y2: y(value),
      stroke: colour(ink),
      'stroke-dasharray': '6 4',
    });
    add(svg, 'text', { x: 4, y: y(value) }, `${label} ${amount(value, replay.pebbles)}`);
  }
}

function drawLanes(svg: Element, replay: Replay, x: (value: number) => string): void {
  lanesOf(replay).forEach((lane, row) => {
    const y = MEMORY + 12 + row * (LANE + 4);
    add(svg, 'text', { x: 4, y: y + 16 }, lane.label);
    const { from, to } = lane.spans.time;
    lane.operations.forEach((i, k) => {
      const width = Number(x(to[k] ?? 0)) - Number(x(from[k] ?? 0));
      if (width <= 0) return;
      const act = replay.acts[i] ?? 0;
      const box = add(svg, 'rect', {
        x: x(from[k] ?? 0),
        y,
        width: width.toFixed(2),
        height: LANE,
        fill: colour(ACT_COLOURS[act] ?? ''),
      });
      add(box, 'title', {}, `${operationText(replay, i)} (${ACT_NAMES[act]})`);
    });
  });
}

export function svgOf(replay: Replay): string {
  const height = MEMORY + 12 + lanesOf(replay).length * (LANE + 4) + 24;
  const svg = document.createElementNS(SVG, 'svg');
  for (const [name, value] of Object.entries({
    width: WIDTH,
    height,
    viewBox: `0 0 ${WIDTH} ${height}`,
    fill: colour('ink'),
  }))
    svg.setAttribute(name, String(value));
  svg.setAttribute('font-family', 'system-ui, sans-serif');
  svg.setAttribute('font-size', '11');
  add(svg, 'rect', { width: WIDTH, height, fill: colour('paper') });
  const x = (value: number) => (LEFT + (value / (replay.makespan || 1)) * (WIDTH - LEFT)).toFixed(2);
  drawMemory(svg, replay, x);
  drawLanes(svg, replay, x);
  add(svg, 'text', { x: LEFT, y: height - 8 }, '0');
  add(svg, 'text', { x: WIDTH, y: height - 8, 'text-anchor': 'end' }, time(replay.makespan, replay.timeUnit));
  return new XMLSerializer().serializeToString(svg);
}

export function downloadSvg(replay: Replay): void {
  save(`${replay.id.slice(0, 12)}.svg`, 'image/svg+xml', svgOf(replay));
}
