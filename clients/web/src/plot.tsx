/** uPlot in a view: made when its data come, as wide as there is room, in the colours of the theme. */

import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';

import { bytes } from './format';
import { colour, onTheme } from './theme';

interface PlotProps {
  label: string;
  height: number;
  data: uPlot.AlignedData;
  /** The options; asked again when the theme changes. */
  make: () => Omit<uPlot.Options, 'width' | 'height'>;
  onReady?: (plot: uPlot) => void;
}

export function Plot({ label, height, data, make, onReady }: PlotProps): VNode {
  const place = useRef<HTMLDivElement>(null);
  const latest = useRef({ make, data });
  latest.current = { make, data };
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    let plot: uPlot;
    const build = () => {
      plot?.destroy();
      const { make, data } = latest.current;
      plot = new uPlot({ ...make(), width: element.clientWidth, height }, data, element);
      onReady?.(plot);
    };
    build();
    const sizes = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    sizes.observe(element);
    const offTheme = onTheme(build);
    return () => {
      sizes.disconnect();
      offTheme();
      plot.destroy();
    };
  }, []);
  return <div ref={place} class="plot" role="img" aria-label={label} />;
}

/** Steps between ticks: for bytes, powers of two. */
const POWERS = Array.from({ length: 60 }, (_, power) => 2 ** power);

function axis(values: (value: number) => string, size: number): uPlot.Axis {
  return {
    ...(values === axisBytes && { incrs: POWERS }),
    stroke: () => colour('ink-2'),
    grid: { stroke: () => colour('line-faint'), width: 1 },
    ticks: { stroke: () => colour('line-faint'), width: 1 },
    font: '11px system-ui, sans-serif',
    size,
    /* a logarithmic axis has no text at some of its ticks */
    values: (_u, ticks: (number | null)[]) => ticks.map((tick) => (tick === null ? '' : values(tick))),
  };
}

export function xyAxes(x: (value: number) => string, y: (value: number) => string): uPlot.Axis[] {
  return [{ ...axis(x, 32), space: 80 }, axis(y, 76)];
}

export function axisBytes(value: number): string {
  return bytes(Math.round(value));
}
