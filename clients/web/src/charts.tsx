/** The charts of a schedule, one below the other on one axis: memory, layers, streams, arena. They move and
 * zoom together; lines across all of them show the operation looked at and the one pointed at. */

import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { drawArena, rectanglesOf, valueAt } from './arena';
import { Canvas, type Redraw } from './canvas';
import { amount, count, time } from './format';
import { Key } from './key';
import { bandAt, bandsOf, drawMemory, sumsOf, type Band, type Grouping } from './memory';
import {
  ACT_COLOURS,
  ACT_NAMES,
  aliveAt,
  operationName,
  STATE,
  valueName,
  VALUE_KINDS,
  VALUE_NAMES,
  type Replay,
} from './replay';
import type { SpanView } from './span_view';
import { GUTTER, RIGHT, steer } from './stretch';
import { drawStrip, STRIP, stripOf } from './strip';
import { drawStreams, lanesOf, streamsHeight } from './streams';
import { Facts, Name } from './ui';

const MEMORY = 280;
const ARENA = 200;
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
    const state = () => [view.from, view.to, view.axis, view.found, view.nodes[view.step]];
    let drawn = state();
    return view.listen(() => {
      const now = state();
      if (now.every((one, i) => one === drawn[i])) return;
      drawn = now;
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
  w: (view) => view.zoom(1.5, middle(view)),
  s: (view) => view.zoom(1 / 1.5, middle(view)),
  a: (view) => view.move(-0.2),
  d: (view) => view.move(0.2),
  f: (view) => view.selection && view.show(...view.selection),
  Escape: (view) => view.select(0, 0),
};

/** What W and S zoom around: where the pointer is over the charts, else the middle of what is seen. */
function middle(view: SpanView): number {
  const { x, width } = view.pointer;
  return view.hover >= 0 ? view.value(x, width) : (view.from + view.to) / 2;
}

function stepX(view: SpanView): number {
  return view.spans.from[view.step] ?? 0;
}

/** under: the value and the band under a pointer while an operation runs; -1 if none. */
function control(
  element: HTMLElement,
  view: SpanView,
  under: (event: PointerEvent, operation: number) => { value: number; band: number },
): () => void {
  const abort = new AbortController();
  const { signal } = abort;
  let pressed: { event: PointerEvent; at: number; selects: boolean } | undefined;
  let moved = 0;
  const at = (event: MouseEvent) => event.clientX - element.getBoundingClientRect().left;
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const selects = event.pointerType === 'mouse' && !event.shiftKey;
    pressed = { event, at: view.value(at(event), element.clientWidth), selects };
    moved = 0;
    element.setPointerCapture(event.pointerId);
  };
  const drag = (event: PointerEvent) => {
    const { left, width } = element.getBoundingClientRect();
    const x = event.clientX - left;
    if (pressed) {
      moved += Math.abs(event.clientX - pressed.event.clientX);
      if (view.hover >= 0) view.setHover(-1);
      if (pressed.selects) {
        if (moved >= 4) view.select(pressed.at, view.value(x, width));
        return;
      }
      view.move((pressed.event.clientX - event.clientX) / (width - GUTTER - RIGHT));
      pressed.event = event;
      return;
    }
    const operation = x < GUTTER ? -1 : view.operationAt(x, width);
    view.setHover(operation, { x, width, ...under(event, operation) });
  };
  const up = (event: PointerEvent) => {
    if (pressed && moved < 4) view.setStep(view.operationAt(at(event), element.clientWidth));
    pressed = undefined;
  };
  element.addEventListener('pointerdown', down, { signal });
  element.addEventListener('pointermove', drag, { signal });
  element.addEventListener('pointerup', up, { signal });
  element.addEventListener('pointercancel', () => (pressed = undefined), { signal });
  element.addEventListener('pointerleave', () => view.setHover(-1), { signal });
  steer(element, view, KEYS, signal);
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

/** The stretch that is selected. */
function Selected({ view }: { view: SpanView }): VNode {
  const area = useRef<HTMLDivElement>(null);
  useEffect(
    () =>
      view.listen(() => {
        const element = area.current;
        const width = element?.parentElement?.clientWidth ?? 0;
        if (!element) return;
        const [from, to] = (view.selection ?? [0, 0]).map((x) =>
          Math.max(GUTTER, Math.min(width - RIGHT, view.position(x, width))),
        );
        element.hidden = !view.selection || from === to;
        element.style.left = `${from}px`;
        element.style.width = `${(to ?? 0) - (from ?? 0)}px`;
      }),
    [view],
  );
  return <div ref={area} class="selection" hidden />;
}

/** What runs in the stretch that is selected, and its memory. */
function SelectedSums({ replay, view }: { replay: Replay; view: SpanView }): VNode | null {
  const [selection, setSelection] = useState(view.selection);
  useEffect(() => view.listen(() => setSelection(view.selection)), [view]);
  const sums = useMemo(() => selection && sumsOf(replay, view, selection), [selection, replay]);
  if (!sums) return null;
  const timeOf = (value: number) => time(value, replay.timeUnit);
  return (
    <section class="sums" aria-label="The stretch selected">
      <div class="bar">
        <Facts
          list={[
            ['selected', timeOf(sums.length)],
            ...ACT_NAMES.flatMap((name, act): [string, string][] => {
              const sum = sums.acts[act];
              return sum ? [[name, `${timeOf(sum.time)} in ${count(sum.runs)}`]] : [];
            }),
            ['most memory', `${amount(sums.most, replay.pebbles)} at operation ${sums.mostAt}`],
            ['mean memory', amount(Math.round(sums.mean), replay.pebbles)],
          ]}
        />
        <span class="spring" />
        <button type="button" onClick={() => selection && view.show(...selection)}>
          Zoom to it
        </button>
        <button type="button" onClick={() => view.select(0, 0)}>
          Clear
        </button>
      </div>
    </section>
  );
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
function Tip({ replay, view, bands }: { replay: Replay; view: SpanView; bands: Band[] }): VNode | null {
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
  const band = bands[pointer.band];
  const held = (band?.top[i] ?? 0) - (bands[pointer.band - 1]?.top[i] ?? 0);
  return (
    <div class="tip" style={left ? { left: `${x}px` } : { right: `${x}px` }} aria-hidden="true">
      <strong>
        {i}: {words} <Name text={whose} />
      </strong>
      <div>
        {time(replay.stream.from[i] ?? 0, replay.timeUnit)} to {time(replay.stream.to[i] ?? 0, replay.timeUnit)},{' '}
        {amount(replay.during[i] ?? 0, replay.pebbles)}
      </div>
      {band && replay.values.length > 0 && (
        <div>
          <Name text={band.name} /> {amount(held, replay.pebbles)}
        </div>
      )}
      {replay.values.length > 0 && <AliveNames replay={replay} operation={i} first={pointer.value} />}
    </div>
  );
}

/* ---- legends ---- */

function ActKeys({ replay }: { replay: Replay }): VNode {
  const used = useMemo(() => new Set(replay.acts), [replay]);
  return (
    <p class="keys">
      {replay.values.length > 0 && <Key name="kept" ink="kept" />}
      {ACT_NAMES.map(
        (name, act) =>
          used.has(act) && <Key name={replay.pebbles && act === STATE ? 'copy' : name} ink={ACT_COLOURS[act] ?? ''} />,
      )}
    </p>
  );
}

function BandKeys({ bands }: { bands: Band[] }): VNode {
  return (
    <p class="keys">
      {[...bands].reverse().map(({ name, ink }) => (
        <Key name={<Name text={name} />} ink={ink} />
      ))}
    </p>
  );
}

function ValueKeys({ replay }: { replay: Replay }): VNode {
  const used = useMemo(() => new Set(replay.values.map(([kind]) => kind)), [replay]);
  return (
    <p class="keys">
      {VALUE_KINDS.map((kind) => used.has(kind) && <Key name={VALUE_NAMES[kind] ?? kind} ink={`value-${kind}`} />)}
    </p>
  );
}

/* ---- all of them ---- */

export function Charts({ replay, view, grouping }: { replay: Replay; view: SpanView; grouping: Grouping }): VNode {
  const bands = useMemo(() => bandsOf(replay, grouping), [replay, grouping]);
  const stack = useRef<HTMLDivElement>(null);
  const lanes = useMemo(() => lanesOf(replay), [replay]);
  const rectangles = useMemo(() => rectanglesOf(replay), [replay]);
  const strip = useMemo(() => stripOf(replay, view), [replay, view]);
  const latest = useRef(bands);
  latest.current = bands;
  useEffect(() => {
    const element = stack.current;
    if (!element) return;
    return control(element, view, (event, operation) => {
      const name = event.target instanceof HTMLCanvasElement ? event.target.dataset['name'] : '';
      return {
        value: name === 'draw-arena' ? valueAt(replay, operation, event.offsetY, ARENA) : -1,
        band: name === 'draw-memory' ? bandAt(latest.current, replay, operation, event.offsetY, MEMORY) : -1,
      };
    });
  }, [view, replay]);
  return (
    <>
      <div class="charts" ref={stack}>
        <SpanCanvas
          key={grouping}
          name="draw-memory"
          label={`Memory over ${view.axis}: at most ${amount(replay.peak, replay.pebbles)} of ${amount(replay.budget, replay.pebbles)}. W and S zoom, A and D move.`}
          height={MEMORY}
          view={view}
          draw={(context, width, height) => drawMemory(context, width, height, bands, replay, view)}
        />
        {replay.values.length > 0 && <BandKeys key={grouping} bands={bands} />}
        {replay.values.length > 0 && (
          <SpanCanvas
            name="draw-strip"
            label={`Layers against ${view.axis}: when each runs, and how long what it made is kept. The same is under Nodes.`}
            height={STRIP}
            view={view}
            draw={(context, width, height) => drawStrip(context, width, height, strip, replay, view)}
          />
        )}
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
        <Selected view={view} />
        <Marker view={view} kind="hover" />
        <Marker view={view} kind="step" />
        <Tip replay={replay} view={view} bands={bands} />
      </div>
      <SelectedSums replay={replay} view={view} />
    </>
  );
}
