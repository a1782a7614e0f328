/** A canvas that is drawn when something changed, at most once a frame, at the resolution of the
 * screen. */

import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { onTheme } from './theme';

export type Draw = (context: CanvasRenderingContext2D, width: number, height: number) => void;

export interface Redraw {
  /** Draws in the next frame. */
  (): void;
}

interface CanvasProps {
  /** Names the drawing in performance measures. */
  name: string;
  label: string;
  describedBy?: string | undefined;
  height: number;
  draw: Draw;
  /** Gets the way to have it drawn again, and may return what undoes it. */
  onReady: (redraw: Redraw, canvas: HTMLCanvasElement) => (() => void) | void;
}

export function Canvas({ name, label, describedBy, height, draw, onReady }: CanvasProps): VNode {
  const element = useRef<HTMLCanvasElement>(null);
  const latest = useRef(draw);
  latest.current = draw;
  useEffect(() => {
    const canvas = element.current;
    const context = canvas?.getContext('2d', { alpha: false });
    if (!canvas || !context) return;
    let frame = 0;
    const drawNow = () => {
      frame = 0;
      const ratio = devicePixelRatio;
      const { clientWidth, clientHeight } = canvas;
      if (canvas.width !== Math.round(clientWidth * ratio)) canvas.width = Math.round(clientWidth * ratio);
      if (canvas.height !== Math.round(clientHeight * ratio)) canvas.height = Math.round(clientHeight * ratio);
      const start = performance.now();
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      latest.current(context, clientWidth, clientHeight);
      performance.clearMeasures(name);
      performance.measure(name, { start });
    };
    const redraw = () => {
      frame ||= requestAnimationFrame(drawNow);
    };
    const sizes = new ResizeObserver(redraw);
    sizes.observe(canvas);
    const offTheme = onTheme(redraw);
    const undo = onReady(redraw, canvas);
    return () => {
      cancelAnimationFrame(frame);
      sizes.disconnect();
      offTheme();
      undo?.();
    };
  }, []);
  return (
    <canvas
      ref={element}
      class="canvas"
      data-name={name}
      style={{ height: `${height}px` }}
      role="img"
      aria-label={label}
      aria-describedby={describedBy}
      tabIndex={0}
    />
  );
}
