/** The charts of a schedule, one below the other on one axis: memory, streams, arena. They move and
 * zoom together; lines across all of them show the operation looked at and the one pointed at. */

import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { drawArena, rectanglesOf, valueAt } from './arena';
import { Canvas, type Redraw } from './canvas';
import { amount, time } from './format';
import { MemoryChart } from './memory';
import { ACT_COLOURS, ACT_NAMES, aliveAt, operationName, STATE, valueName, VALUE_KINDS, type Replay } from './replay';
import { GUTTER, RIGHT, type SpanView } from './span_view';
import { drawStreams, lanesOf, streamsHeight } from './streams';
import { colour, onTheme } from './theme';
import { Name } from './ui';

const ARENA = 260;
const NAMED = 8;

/** A canvas on the common axis. */
function SpanCanvas(props: {
  name: string;
  label: string;
  height: number;
  view: SpanView;
  draw: (context: CanvasRenderingContext2D, width: number, height: number) => void;
}): VNode {
  const { view } = props;
  const ready = (redraw: Redraw) => {
    let [from, to, axis] = [view.from, view.to, view.axis];
    return view.listen(() => {
      if (from === view.from && to === view.to && axis === view.axis) return;
      [from, to, axis] = [view.from, view.to, view.axis];
      redraw();
    });
  };
  return <Canvas {...props} onReady={ready} />;
}

/* ---- pointer and keys ---- */

const KEYS: Record<string, (view: SpanView) => void> = {
  ArrowRight: (view) => view.setStep(view.step + 1),
  ArrowLeft: (view) => view.setStep(view.step - 1),
  PageDown: (view) => view.setStep(view.step + 10),
  PageUp: (view) => view.setStep(view.step - 10),
  Home: (view) => view.setStep(0),
  End: (view) => view.setStep(view.replay.n - 1),
  p: (view) => view.setStep(view.replay.peakOperation),
  '+': (view) => view.zoom(1.5, stepX(view)),
  '=': (view) => view.zoom(1.5, stepX(view)),
  '-': (view) => view.zoom(1 / 1.5, stepX(view)),
  '0': (view) => view.all(),
};

function stepX(view: SpanView): number {
  return view.spans.from[view.step] ?? 0;
}

/** valueUnder: the value under a pointer while an operation runs; -1 if none. */
function control(
  element: HTMLElement,
  view: SpanView,
  valueUnder: (event: PointerEvent, operation: number) => number,
): () => void {
  const abort = new AbortController();
  const { signal } = abort;
  let pressed: PointerEvent | undefined;
  let moved = 0;
  const at = (event: MouseEvent) => event.clientX - element.getBoundingClientRect().left;
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    pressed = event;
    moved = 0;
    element.setPointerCapture(event.pointerId);
  };
  const drag = (event: PointerEvent) => {
    const { left, width } = element.getBoundingClientRect();
    const x = event.clientX - left;
    if (pressed) {
      moved += Math.abs(event.clientX - pressed.clientX);
      if (view.hover >= 0) view.setHover(-1);
      view.move((pressed.clientX - event.clientX) / (width - GUTTER - RIGHT));
      pressed = event;
      return;
    }
    const operation = x < GUTTER ? -1 : view.operationAt(x, width);
    view.setHover(operation, { x, width, value: valueUnder(event, operation) });
  };
  const up = (event: PointerEvent) => {
    if (pressed && moved < 4) view.setStep(view.operationAt(at(event), element.clientWidth));
    pressed = undefined;
  };
  const wheel = (event: WheelEvent) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.ctrlKey && !element.contains(document.activeElement)) return;
    event.preventDefault();
    if (sideways) view.move(event.deltaX / element.clientWidth);
    else view.zoom(Math.exp(-event.deltaY * 0.002), view.value(at(event), element.clientWidth));
  };
  const key = (event: KeyboardEvent) => {
    const does = KEYS[event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does(view);
  };
  element.addEventListener('pointerdown', down, { signal });
  element.addEventListener('pointermove', drag, { signal });
  element.addEventListener('pointerup', up, { signal });
  element.addEventListener('pointercancel', () => (pressed = undefined), { signal });
  element.addEventListener('pointerleave', () => view.setHover(-1), { signal });
  element.addEventListener('dblclick', () => view.all(), { signal });
  element.addEventListener('wheel', wheel, { signal, passive: false });
  element.addEventListener('keydown', key, { signal });
  return () => abort.abort();
}

/* ---- what is drawn over them ---- */

/** A line at an operation. */
function Marker({ view, kind }: { view: SpanView; kind: 'step' | 'hover' }): VNode {
  const line = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let width = 0;
    const set = () => {
      const element = line.current;
      if (!element) return;
      const i = kind === 'step' ? view.step : view.hover;
      const x = view.position(((view.spans.from[i] ?? 0) + (view.spans.to[i] ?? 0)) / 2, width);
      element.hidden = i < 0 || x < GUTTER - 1 || x > width - RIGHT + 1;
      element.style.transform = `translateX(${x}px)`;
    };
    const sizes = new ResizeObserver(([entry]) => {
      width = entry?.contentRect.width ?? 0;
      set();
    });
    if (line.current?.parentElement) sizes.observe(line.current.parentElement);
    const off = view.listen(set);
    return () => {
      sizes.disconnect();
      off();
    };
  }, [view]);
  return <div ref={line} class={`marker ${kind}`} hidden />;
}

function AliveNames({ replay, operation, first }: { replay: Replay; operation: number; first: number }): VNode {
  const alive = aliveAt(replay, operation);
  const named = first < 0 ? alive : [first, ...alive.filter((k) => k !== first)];
  return (
    <ul>
      {named.slice(0, NAMED).map((k) => {
        const value = replay.values[k];
        if (!value) return null;
        const [words, whose] = valueName(replay, value);
        return (
          <li class={k === first ? 'pointed' : undefined}>
            {words} <Name text={whose} /> <span class="number">{amount(value[2], replay.pebbles)}</span>
          </li>
        );
      })}
      {alive.length > NAMED && <li class="quiet">and {alive.length - NAMED} more</li>}
    </ul>
  );
}

/** What is under the pointer: the operation, and the values alive with their bytes. */
function Tip({ replay, view }: { replay: Replay; view: SpanView }): VNode | null {
  const [{ hover: i, pointer }, setSeen] = useState({ hover: view.hover, pointer: view.pointer });
  useEffect(
    () =>
      view.listen(() =>
        setSeen((before) =>
          before.pointer === view.pointer && before.hover === view.hover
            ? before
            : { hover: view.hover, pointer: view.pointer },
        ),
      ),
    [view],
  );
  if (i < 0 || i >= replay.n) return null;
  const [words, whose] = operationName(replay, i);
  const left = pointer.x < pointer.width / 2;
  const x = left ? pointer.x + 16 : pointer.width - pointer.x + 16;
  return (
    <div class="tip" style={left ? { left: `${x}px` } : { right: `${x}px` }} aria-hidden="true">
      <strong>
        {i}: {words} <Name text={whose} />
      </strong>
      <div>
        {time(replay.stream.from[i] ?? 0, replay.timeUnit)} to {time(replay.stream.to[i] ?? 0, replay.timeUnit)},{' '}
        {amount(replay.during[i] ?? 0, replay.pebbles)}
      </div>
      {replay.values.length > 0 && <AliveNames replay={replay} operation={i} first={pointer.value} />}
    </div>
  );
}

/* ---- legends ---- */

function Key({ name, ink }: { name: string; ink: string }): VNode {
  const swatch = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const paint = () => {
      if (swatch.current) swatch.current.style.background = colour(ink);
    };
    paint();
    return onTheme(paint);
  }, [ink]);
  return (
    <span class="key">
      <span ref={swatch} class="swatch" /> {name}
    </span>
  );
}

function ActKeys({ replay }: { replay: Replay }): VNode {
  const used = useMemo(() => new Set(replay.acts), [replay]);
  return (
    <p class="keys">
      {ACT_NAMES.map(
        (name, act) =>
          used.has(act) && <Key name={replay.pebbles && act === STATE ? 'copy' : name} ink={ACT_COLOURS[act] ?? ''} />,
      )}
    </p>
  );
}

function ValueKeys({ replay }: { replay: Replay }): VNode {
  const used = useMemo(() => new Set(replay.values.map(([kind]) => kind)), [replay]);
  return (
    <p class="keys">
      {VALUE_KINDS.map((kind) => used.has(kind) && <Key name={kind.replace('_', ' ')} ink={`value-${kind}`} />)}
    </p>
  );
}

/* ---- all of them ---- */

export function Charts({ replay, view }: { replay: Replay; view: SpanView }): VNode {
  const stack = useRef<HTMLDivElement>(null);
  const lanes = useMemo(() => lanesOf(replay), [replay]);
  const rectangles = useMemo(() => rectanglesOf(replay), [replay]);
  useEffect(() => {
    const element = stack.current;
    if (!element) return;
    return control(element, view, (event, operation) => {
      const canvas = event.target instanceof HTMLCanvasElement ? event.target : undefined;
      return canvas?.dataset['name'] === 'draw-arena' ? valueAt(replay, operation, event.offsetY, ARENA) : -1;
    });
  }, [view, replay]);
  return (
    <div class="charts" ref={stack}>
      <MemoryChart replay={replay} view={view} />
      <SpanCanvas
        name="draw-streams"
        label={`Streams of ${replay.n} operations. Left and right step through them, plus and minus zoom, 0 shows all, p goes to the peak. The operation is told below.`}
        height={streamsHeight(lanes)}
        view={view}
        draw={(context, width, height) => drawStreams(context, width, height, lanes, replay, view)}
      />
      <ActKeys replay={replay} />
      {replay.arena > 0 && replay.offsets.length > 0 && (
        <>
          <SpanCanvas
            name="draw-arena"
            label={`Arena of ${amount(replay.arena)}: address against ${view.axis}. The values alive are in the table below.`}
            height={ARENA}
            view={view}
            draw={(context, width, height) => drawArena(context, width, height, rectangles, replay, view)}
          />
          <ValueKeys replay={replay} />
        </>
      )}
      <Marker view={view} kind="hover" />
      <Marker view={view} kind="step" />
      <Tip replay={replay} view={view} />
    </div>
  );
}
