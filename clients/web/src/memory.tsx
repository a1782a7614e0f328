/** Memory over the course of a schedule, with the line of the budget. */

import type { VNode } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type uPlot from 'uplot';

import { amount, time } from './format';
import { axisBytes, Plot, xyAxes } from './plot';
import type { Replay, Spans } from './replay';
import { GUTTER, RIGHT, type SpanView } from './span_view';
import { colour } from './theme';

/** The corners of the curve: what is there before each operation, while it runs, and after it. */
export function memoryCorners(replay: Replay, { from, to }: Spans): [Float64Array, Float64Array] {
  const x = new Float64Array(4 * replay.n);
  const y = new Float64Array(4 * replay.n);
  for (let i = 0; i < replay.n; i++) {
    x[4 * i] = x[4 * i + 1] = from[i] ?? 0;
    x[4 * i + 2] = x[4 * i + 3] = to[i] ?? 0;
    y[4 * i] = replay.after[i - 1] ?? replay.during[i] ?? 0;
    y[4 * i + 1] = y[4 * i + 2] = replay.during[i] ?? 0;
    y[4 * i + 3] = replay.after[i] ?? 0;
  }
  return [x, y];
}

/** The dashed line of the budget. */
function budgetLine(replay: Replay): uPlot.Plugin {
  const draw = (u: uPlot) => {
    const y = u.valToPos(replay.budget, 'y', true);
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour('budget');
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.setLineDash([6, 4]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = 'right';
    ctx.textBaseline = 'bottom';
    ctx.fillText(`budget ${amount(replay.budget, replay.pebbles)}`, bbox.left + bbox.width - 4, y - 2);
    ctx.restore();
  };
  return { hooks: { draw } };
}

export function MemoryChart({ replay, view }: { replay: Replay; view: SpanView }): VNode {
  const plot = useRef<uPlot | undefined>(undefined);
  const axis = view.axis;
  useEffect(() => {
    let frame = 0;
    const follow = () => {
      frame = 0;
      const scale = plot.current?.scales['x'];
      if (scale && (scale.min !== view.from || scale.max !== view.to))
        plot.current?.setScale('x', { min: view.from, max: view.to });
    };
    const off = view.listen(() => (frame ||= requestAnimationFrame(follow)));
    return () => {
      cancelAnimationFrame(frame);
      off();
    };
  }, [view]);
  const corners = useMemo(() => memoryCorners(replay, view.spans) as unknown as uPlot.AlignedData, [replay, axis]);
  const most = Math.max(replay.budget, replay.peak) * 1.12;
  const top = replay.budget > 3 * replay.peak ? replay.peak * 1.12 : most;
  const make = (): Omit<uPlot.Options, 'width' | 'height'> => ({
    scales: { x: { time: false, auto: false, min: view.from, max: view.to }, y: { range: [0, top] } },
    axes: (() => {
      const [x, y] = xyAxes(
        (value) => (axis === 'time' ? time(value, replay.timeUnit) : String(value)),
        replay.pebbles ? (value) => amount(value, true) : axisBytes,
      );
      return [x ?? {}, { ...y, size: GUTTER }];
    })(),
    padding: [8, RIGHT, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    series: [
      {},
      { label: 'memory', stroke: colour('memory'), fill: colour('memory-fill'), width: 1.2, points: { show: false } },
    ],
    plugins: [budgetLine(replay)],
  });
  return (
    <Plot
      key={axis}
      label={`Memory over ${axis}: at most ${amount(replay.peak, replay.pebbles)} of ${amount(replay.budget, replay.pebbles)}.`}
      height={230}
      data={corners}
      make={make}
      onReady={(made) => (plot.current = made)}
    />
  );
}
