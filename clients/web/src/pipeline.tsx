/** The plan of a pipeline: ranks as rows, micro-batches as boxes, the memory of each rank below. */

import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';

import { Canvas, type Redraw } from './canvas';
import { bytes, count, percent, seconds } from './format';
import { Key } from './key';
import { drawPipeline, passAt, pipelineHeight, StepView, type Pass } from './pipeline_draw';
import { go, href } from './route';
import { GUTTER, RIGHT, steer } from './stretch';
import { Facts, Name, Scroll } from './ui';

interface Stage {
  rank: number;
  first_node: string;
  last_node: string;
  nodes: number;
  forward_seconds: number;
  backward_seconds: number;
  in_flight: number;
  weights: number;
  gradients: number;
  optimizer_states: number;
  held_bytes: number;
  working_bytes: number;
  buffer_bytes: number;
  memory: number;
  schedule: { schedule_id: string; overhead: number };
  passes?: Pass[];
}

export interface Pipeline {
  memory: number;
  ways: { way: string; fits: boolean; step_seconds: number; memory: number; rank?: number; lacks?: number }[];
  least_memory?: number;
  stages?: Stage[];
  seconds?: number;
  bubble?: number;
  gap?: number;
}

/** Two of each micro-batch on each rank; more are not told. */
const MOST_PASSES = 65536;

export function passesTold(ranks: number, microbatches: number): boolean {
  return 2 * ranks * microbatches <= MOST_PASSES;
}

const WAYS: Record<string, string> = {
  'store-all': 'nothing runs again',
  blocks: 'every block runs again',
  attention: 'attention runs again',
};

/** What runs again, of a forward and backward of a stage. */
function againOf({ forward_seconds, backward_seconds, schedule }: Stage): number {
  return ((forward_seconds + backward_seconds) * schedule.overhead) / (1 + schedule.overhead);
}

/* ---- the drawing ---- */

const KEYS: Record<string, (view: StepView) => void> = {
  ArrowRight: (view) => view.move(0.1),
  ArrowLeft: (view) => view.move(-0.1),
  Home: (view) => view.show(0, view.to - view.from),
  End: (view) => view.show(view.end - (view.to - view.from), view.end),
  '+': (view) => view.zoom(1.5),
  '=': (view) => view.zoom(1.5),
  '-': (view) => view.zoom(1 / 1.5),
  '0': (view) => view.all(),
  w: (view) => view.zoom(1.5),
  s: (view) => view.zoom(1 / 1.5),
  a: (view) => view.move(-0.2),
  d: (view) => view.move(0.2),
};

function control(canvas: HTMLCanvasElement, view: StepView, open: (rank: number) => void): () => void {
  const abort = new AbortController();
  const { signal } = abort;
  let [from, moved] = [NaN, 0];
  const at = (event: PointerEvent) => passAt(view, event.offsetX, event.offsetY, canvas.clientWidth);
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    [from, moved] = [event.clientX, 0];
  };
  const drag = (event: PointerEvent) => {
    if (Number.isNaN(from)) {
      view.setHover(at(event));
      canvas.style.cursor = view.hover ? 'pointer' : '';
      return;
    }
    moved += Math.abs(event.clientX - from);
    view.move((from - event.clientX) / (canvas.clientWidth - GUTTER - RIGHT));
    from = event.clientX;
  };
  const up = (event: PointerEvent) => {
    const found = moved < 4 && !Number.isNaN(from) && at(event);
    from = NaN;
    if (found) open(found.rank);
  };
  canvas.addEventListener('pointerdown', down, { signal });
  canvas.addEventListener('pointermove', drag, { signal });
  canvas.addEventListener('pointerup', up, { signal });
  canvas.addEventListener('pointercancel', () => (from = NaN), { signal });
  canvas.addEventListener('pointerleave', () => view.setHover(undefined), { signal });
  steer(canvas, view, KEYS, signal);
  return () => abort.abort();
}

/** What is under the pointer. */
function Told({ view, stages }: { view: StepView; stages: Stage[] }): VNode {
  const [hover, setHover] = useState(view.hover);
  useEffect(() => view.listen(() => setHover(view.hover)), [view]);
  const pass = hover && view.lanes[hover.rank]?.passes[hover.pass];
  const again = hover ? (view.lanes[hover.rank]?.again ?? 0) : 0;
  if (!pass || !stages[hover.rank])
    return <p class="quiet">A box is a micro-batch that a rank runs, with its number; a click opens the rank's schedule.</p>;
  const [kind, microbatch, from, to, during] = pass;
  return (
    <p class="quiet">
      Rank {hover.rank}, micro-batch {microbatch}, {kind === 'F' ? 'forward' : 'backward'}: from {seconds(from)} to{' '}
      {seconds(to)}
      {kind === 'B' && again > 0 && `, of which ${seconds(again)} run again`}, at most {bytes(during)}
    </p>
  );
}

function Step({ stages, plan }: { stages: Stage[]; plan: Pipeline }): VNode {
  const view = useMemo(
    () =>
      new StepView(
        stages.map((stage) => ({ passes: stage.passes ?? [], again: againOf(stage) })),
        plan.seconds ?? 0,
      ),
    [stages],
  );
  const open = (rank: number) => go(`schedule/${stages[rank]?.schedule.schedule_id ?? ''}`);
  const ready = (redraw: Redraw, canvas: HTMLCanvasElement) => {
    const off = view.listen(redraw);
    const undo = control(canvas, view, open);
    return () => {
      off();
      undo();
    };
  };
  return (
    <section>
      <h2>The step</h2>
      <Canvas
        name="draw-pipeline"
        label={`A step of ${stages.length} ranks. Plus and minus zoom, arrows move, 0 shows all. The table below has the same numbers.`}
        height={pipelineHeight(stages.length)}
        draw={(context, width, height) => drawPipeline(context, width, height, view, plan.memory)}
        onReady={ready}
      />
      <p class="keys">
        <Key name="Forward" ink="forward" /> <Key name="Runs again" ink="again" /> <Key name="Backward" ink="backward" />{' '}
        <Key name="Memory" ink="memory" /> <Key name={`Its limit, ${bytes(plan.memory)}`} ink="budget" />
      </p>
      <Told view={view} stages={stages} />
    </section>
  );
}

/* ---- the tables ---- */

function Stages({ stages }: { stages: Stage[] }): VNode {
  return (
    <Scroll label="Ranks">
      <table>
        <caption class="hidden">What each rank runs, and the memory it takes</caption>
        <thead>
          <tr>
            <th scope="col">Rank</th>
            <th scope="col">From</th>
            <th scope="col">To</th>
            {['Forward', 'Backward', 'Again', 'In flight', 'Weights', 'Held', 'Working', 'Buffers', 'Memory'].map((title) => (
              <th scope="col" class="number">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {stages.map((stage) => (
            <tr key={stage.rank}>
              <th scope="row">
                <a href={href(`schedule/${stage.schedule.schedule_id}`)}>Rank {stage.rank}</a>
              </th>
              <td>
                <Name text={stage.first_node} />
              </td>
              <td>
                <Name text={stage.last_node} />
              </td>
              <td class="number">{seconds(stage.forward_seconds)}</td>
              <td class="number">{seconds(stage.backward_seconds)}</td>
              <td class="number">{seconds(againOf(stage))}</td>
              <td class="number">{count(stage.in_flight)}</td>
              <td class="number">{bytes(stage.weights + stage.gradients + stage.optimizer_states)}</td>
              <td class="number">{bytes(stage.held_bytes)}</td>
              <td class="number">{bytes(stage.working_bytes)}</td>
              <td class="number">{bytes(stage.buffer_bytes)}</td>
              <td class="number">{bytes(stage.memory)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

function Ways({ plan, step }: { plan: Pipeline; step: number | undefined }): VNode {
  return (
    <Scroll label="Other ways">
      <table>
        <caption>Beside what people use, with as many nodes on every rank as can be</caption>
        <thead>
          <tr>
            <th scope="col">Way</th>
            <th scope="col" class="number">
              Step
            </th>
            <th scope="col" class="number">
              Most memory
            </th>
            <th scope="col">Fits</th>
          </tr>
        </thead>
        <tbody>
          {step !== undefined && (
            <tr>
              <th scope="row">this plan</th>
              <td class="number">{seconds(step)}</td>
              <td class="number">{bytes(Math.max(...(plan.stages ?? []).map((stage) => stage.memory)))}</td>
              <td>yes</td>
            </tr>
          )}
          {plan.ways.map((way) => (
            <tr key={way.way}>
              <th scope="row">{WAYS[way.way] ?? way.way}</th>
              <td class="number">{seconds(way.step_seconds)}</td>
              <td class="number">{bytes(way.memory)}</td>
              <td>{way.fits ? 'yes' : `no: rank ${way.rank ?? 0} lacks ${bytes(way.lacks ?? 0)}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

export function PipelineAnswer({ plan, step }: { plan: Pipeline; step: number | undefined }): VNode {
  const { stages } = plan;
  return (
    <>
      {stages && step !== undefined && (
        <Facts
          list={[
            ['Step', seconds(step)],
            ['Ranks wait', `${percent(plan.bubble ?? 0)} of it`],
            ['No step is shorter by more than', percent((plan.gap ?? 0) / (1 + (plan.gap ?? 0)))],
          ]}
        />
      )}
      {stages?.[0]?.passes && <Step stages={stages} plan={plan} />}
      {stages && <Stages stages={stages} />}
      <Ways plan={plan} step={step} />
    </>
  );
}
