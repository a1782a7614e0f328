/** From nothing to the most, as a colour and the ink that is read on it. */

import { colour } from './theme';

const STEPS = 32;

interface Tint {
  fill: string;
  ink: string;
}

let made: { key: string; tints: Tint[] } | undefined;

function parse(text: string): number[] {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/** Relative luminance of sRGB, as WCAG 2.1 has it. */
function luminance(rgb: number[]): number {
  const [r = 0, g = 0, b = 0] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function make(stops: number[][]): Tint[] {
  return Array.from({ length: STEPS + 1 }, (_, i) => {
    const at = (i / STEPS) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    const rgb = [0, 1, 2].map((c) =>
      Math.round((stops[low]?.[c] ?? 0) * (low + 1 - at) + (stops[low + 1]?.[c] ?? 0) * (at - low)),
    );
    return { fill: `rgb(${rgb.join(' ')})`, ink: luminance(rgb) > 0.18 ? '#000' : '#fff' };
  });
}

/** fraction: from 0 to 1. */
export function heat(fraction: number): Tint {
  const stops = [colour('heat-0'), colour('heat-1'), colour('heat-2')];
  const key = stops.join();
  if (made?.key !== key) made = { key, tints: make(stops.map(parse)) };
  return made.tints[Math.round(Math.max(0, Math.min(1, fraction)) * STEPS)] as Tint;
}
