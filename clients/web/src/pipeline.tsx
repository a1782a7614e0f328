/** The plan of a pipeline: ranks as rows, micro-batches as boxes, the memory of each rank below. */

import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';

import { Canvas, type Redraw } from './canvas';
import { bytes, count, percent, seconds } from './format';
import { Key } from './key';
import { drawPipeline, passAt, pipelineHeight, StepView, type Pass } from './pipeline_draw';
import { go, href } from './route';
import { GUTTER, RIGHT, steer } from './stretch';
import { Facts, Name, Table, type Column } from './ui';

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
  exchange_seconds?: number;
  bubble?: number;
  gap?: number;
  /** Of an interleaved schedule, which has no stages. */
  way?: string;
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

const STAGES: Column<Stage>[] = [
  { title: 'Rank', cell: (stage) => <a href={href(`schedule/${stage.schedule.schedule_id}`)}>Rank {stage.rank}</a> },
  { title: 'From', cell: (stage) => <Name text={stage.first_node} /> },
  { title: 'To', cell: (stage) => <Name text={stage.last_node} /> },
  { title: 'Forward', numeric: true, cell: (stage) => seconds(stage.forward_seconds) },
  { title: 'Backward', numeric: true, cell: (stage) => seconds(stage.backward_seconds) },
  { title: 'Again', numeric: true, cell: (stage) => seconds(againOf(stage)) },
  { title: 'In flight', numeric: true, cell: (stage) => count(stage.in_flight) },
  { title: 'Weights', numeric: true, cell: (stage) => bytes(stage.weights + stage.gradients + stage.optimizer_states) },
  { title: 'Held', numeric: true, cell: (stage) => bytes(stage.held_bytes) },
  { title: 'Working', numeric: true, cell: (stage) => bytes(stage.working_bytes) },
  { title: 'Buffers', numeric: true, cell: (stage) => bytes(stage.buffer_bytes) },
  { title: 'Memory', numeric: true, cell: (stage) => bytes(stage.memory) },
];

/** Beside the plan, what people use. */
function Ways({ plan, step }: { plan: Pipeline; step: number | undefined }): VNode {
  type Way = Pipeline['ways'][number];
  const columns: Column<Way>[] = [
    { title: 'Way', cell: (way) => WAYS[way.way] ?? way.way },
    { title: 'Step', numeric: true, cell: (way) => seconds(way.step_seconds) },
    { title: 'Most memory', numeric: true, cell: (way) => bytes(way.memory) },
    { title: 'Fits', cell: (way) => (way.fits ? 'yes' : `no: rank ${way.rank ?? 0} lacks ${bytes(way.lacks ?? 0)}`) },
  ];
  const memory = Math.max(...(plan.stages ?? []).map((stage) => stage.memory));
  const own: Way[] = step === undefined || !plan.stages ? [] : [{ way: 'this plan', step_seconds: step, memory, fits: true }];
  return (
    <div class="few">
      <p class="quiet">Beside what people use, with as many nodes on every rank as can be:</p>
      <Table caption="Other ways" columns={columns} rows={[...own, ...plan.ways]} rowKey={(way) => way.way} />
    </div>
  );
}

export function PipelineAnswer({ plan, step }: { plan: Pipeline; step: number | undefined }): VNode {
  const { stages } = plan;
  return (
    <>
      {step !== undefined && (
        <Facts
          list={[
            ['Step', seconds(step)],
            ['Ranks wait', `${percent(plan.bubble ?? 0)} of it`],
            ...(plan.exchange_seconds ? ([['Exchange', seconds(plan.exchange_seconds)]] as [string, string][]) : []),
            plan.way
              ? ['Way', WAYS[plan.way] ?? plan.way]
              : ['No step is shorter by more than', percent((plan.gap ?? 0) / (1 + (plan.gap ?? 0)))],
          ]}
        />
      )}
      {stages?.[0]?.passes && <Step stages={stages} plan={plan} />}
      {stages && <Table caption="Ranks" columns={STAGES} rows={stages} rowKey={(stage) => stage.rank} />}
      <Ways plan={plan} step={step} />
    </>
  );
}
