/** Does a model train on a device, how fast, with how large a batch: POST /v1/plans. */

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import uPlot from 'uplot';

import { get, post, Problem, watchJob } from './api';
import { bytes, count, percent, seconds } from './format';
import { passesTold, PipelineAnswer, type Pipeline } from './pipeline';
import { Plot, xyAxes } from './plot';
import { go, href, type Route } from './route';
import { colour } from './theme';
import type { Job, ProblemBody } from './types';
import { Facts, Show, Table, Title, useLoad, type Column } from './ui';

interface Way {
  way: string;
  offload: boolean;
  fits: boolean;
  samples_per_second?: number;
}

/** As PyTorch and the driver show it. */
interface Memory {
  allocated_bytes: number;
  reserved_bytes: number;
  driver_bytes: number;
  device_bytes: number;
}

interface Plan {
  name: string;
  profile_id: string;
  parameters: number;
  trained_parameters?: number;
  device: string;
  precision: string;
  /** These of one rank's plan; a pipeline has the last. */
  table?: Record<string, number>;
  store_all_peak: number;
  store_all_fits: boolean;
  pipeline?: Pipeline;
  assumptions: string[];
  memory_use?: Memory;
  fits: boolean;
  refusal?: string;
  changes?: { arguments: string; driver_bytes: number; step_seconds: number }[];
  step_seconds?: number;
  samples_per_second?: number;
  compute_seconds: number;
  recomputation_seconds: number;
  communication_seconds: number;
  update_seconds: number;
  schedule?: { schedule_id: string; overhead: number; arena: number };
  rows?: { batch: number; ways: Way[] }[];
  best_batch?: { way: string; offload: boolean; batch: number; samples_per_second: number } | null;
}

interface Choices {
  models: { name: string; title: string }[];
  devices: { name: string; title: string }[];
}

const OPTIMIZERS = ['adamw', 'adam', 'adam8bit', 'adafactor', 'momentum', 'sgd'];
const KERNELS = ['eager', 'compiled', 'compiled-loss', 'fused'].map((name) => ({ name, title: name }));
const FLOAT8 = ['none', 'torchao', 'torchao-gather', 'te', 'te-weights'].map((name) => ({ name, title: name }));
const BASES = ['frozen', 'nf4', 'nf4-double'].map((name) => ({ name, title: name }));
const KINDS = ['none', 'ddp', 'zero1', 'zero2', 'zero3', 'tensor', 'sequence', 'context', 'expert', 'pipeline'].map((name) => ({ name, title: name }));
const ORDERS = ['1f1b', 'gpipe'].map((name) => ({ name, title: name }));
const RUNTIMES = ['pytorch', 'megatron', 'none'].map((name) => ({ name, title: name }));
const PARTS: [string, string][] = [
  ['weights', 'Weights'],
  ['master_weight_bytes', 'Weights in float32 beside'],
  ['gradients', 'Gradients'],
  ['optimizer_states', 'Optimizer states'],
  ['cached_weights', 'Copies in 16 bits of autocast'],
  ['fp8_copies', 'Copies in 8 bits'],
  ['buckets', 'Buckets'],
  ['gathered', 'Gathered'],
  ['workspaces', 'Workspaces of cuBLAS'],
  ['context', 'Context'],
  ['communicator', 'NCCL'],
  ['fragmentation', 'Gaps of the allocator'],
  ['activations', 'Left for activations'],
];
const INKS = ['series-1', 'series-2', 'series-3', 'series-4', 'series-5', 'series-6'];

/** The plan, however long its schedule takes. */
async function askPlan(body: Record<string, unknown>, signal: AbortSignal): Promise<Plan> {
  for (;;) {
    const answer = await post<Plan & Job>('/v1/plans', { ...body, wait: 20 }, signal);
    if (answer.status !== 202) return answer.data;
    for await (const job of watchJob(answer.data.job_id, signal))
      if (job.problem && !isInfeasible(job.problem)) throw new Problem(job.problem);
  }
}

/** Which the plan itself says when it is asked again. */
function isInfeasible(problem: ProblemBody): boolean {
  return problem.type.endsWith('/infeasible-budget');
}

function wayName(way: { way: string; offload: boolean }): string {
  const name = way.way === 'blocks' ? 'per-block checkpointing' : way.way;
  return way.offload ? `${name}, offloading` : name;
}

/* ---- the form ---- */

interface ChoiceProps {
  label: string;
  value: string;
  list: { name: string; title: string }[];
  name: string;
  onPick?: (value: string) => void;
}

function Choice(props: ChoiceProps): VNode {
  return (
    <label>
      {props.label}
      <select name={props.name} value={props.value} onChange={(event) => props.onPick?.(event.currentTarget.value)}>
        {props.list.map((one) => (
          <option value={one.name} selected={one.name === props.value}>
            {one.title}
          </option>
        ))}
      </select>
    </label>
  );
}

function Form({ query, choices }: { query: URLSearchParams; choices: Choices }): VNode {
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    go('plan', Object.fromEntries([...form].map(([name, value]) => [name, String(value)])));
  };
  const [kind, setKind] = useState(query.get('parallel') ?? 'none');
  const [rank, setRank] = useState(query.get('lora') ?? '0');
  const optimizers = OPTIMIZERS.map((name) => ({ name, title: name }));
  return (
    <form class="columns" onSubmit={submit}>
      <Choice label="Model" name="model" value={query.get('model') ?? 'gpt2-xl'} list={choices.models} />
      <label>
        Batch
        <input name="batch" type="number" required min={1} max={1048576} value={query.get('batch') ?? '8'} />
      </label>
      <Choice label="Device" name="device" value={query.get('device') ?? 'a100-80gb'} list={choices.devices} />
      <Choice label="Optimizer" name="optimizer" value={query.get('optimizer') ?? 'adamw'} list={optimizers} />
      <Choice label="Kernels" name="kernels" value={query.get('kernels') ?? 'eager'} list={KERNELS} />
      <Choice label="Products in 8 bits" name="fp8" value={query.get('fp8') ?? 'none'} list={FLOAT8} />
      <label>
        LoRA rank, 0 to train everything
        <input
          name="lora"
          type="number"
          required
          min={0}
          max={65536}
          value={rank}
          onInput={(event) => setRank(event.currentTarget.value)}
        />
      </label>
      {Number(rank) > 0 && (
        <Choice label="Frozen matrices" name="base" value={query.get('base') ?? 'frozen'} list={BASES} />
      )}
      <Choice label="Ranks share by" name="parallel" value={kind} list={KINDS} onPick={setKind} />
      <label>
        Ranks
        <input name="ranks" type="number" required min={1} max={1048576} value={query.get('ranks') ?? '1'} />
      </label>
      {kind === 'pipeline' && (
        <>
          <label>
            Micro-batches
            <input
              name="microbatches"
              type="number"
              required
              min={1}
              max={4096}
              value={query.get('microbatches') ?? '8'}
            />
          </label>
          <label>
            Replicas
            <input name="replicas" type="number" required min={1} max={65536} value={query.get('replicas') ?? '1'} />
          </label>
          <Choice label="Order" name="schedule" value={query.get('schedule') ?? '1f1b'} list={ORDERS} />
          <Choice label="Run by" name="runtime" value={query.get('runtime') ?? 'pytorch'} list={RUNTIMES} />
        </>
      )}
      <p class="actions">
        <button type="submit" class="primary">
          Plan
        </button>
      </p>
    </form>
  );
}

/* ---- the answer ---- */

function Bytes({ table }: { table: Record<string, number> }): VNode {
  const memory = table.memory ?? 1;
  const columns: Column<(typeof PARTS)[number]>[] = [
    { title: 'What', cell: ([, title]) => title },
    { title: 'Bytes', numeric: true, cell: ([name]) => bytes(table[name] ?? 0) },
    { title: `Part of ${bytes(memory)}`, numeric: true, cell: ([name]) => percent((table[name] ?? 0) / memory) },
  ];
  return (
    <div class="few">
      <Table caption="What takes how much" columns={columns} rows={PARTS} rowKey={([name]) => name} />
    </div>
  );
}

function rateText(way: Way): string {
  return way.samples_per_second === undefined ? '–' : count(Number(way.samples_per_second.toPrecision(4)));
}

function Rates({ plan, rows }: { plan: Plan; rows: NonNullable<Plan['rows']> }): VNode {
  const ways = rows[0]?.ways ?? [];
  const data = [
    rows.map((row) => row.batch),
    ...ways.map((_way, k) => rows.map((row) => row.ways[k]?.samples_per_second ?? null)),
  ] as uPlot.AlignedData;
  const make = (): Omit<uPlot.Options, 'width' | 'height'> => ({
    scales: { x: { time: false, distr: 3, log: 2 }, y: { range: (_u, _low, high) => [0, high * 1.05] } },
    axes: xyAxes(
      (value) => count(value),
      (value) => count(value),
    ),
    series: [
      { label: 'Batch' },
      ...ways.map((way, k) => ({
        label: wayName(way),
        stroke: colour(INKS[k % INKS.length] ?? 'series-1'),
        width: 2,
        ...(way.offload && { dash: [6, 4] }),
        points: { show: true, size: 6 },
      })),
    ],
    cursor: { focus: { prox: 24 } },
    focus: { alpha: 0.35 },
  });
  const columns: Column<(typeof rows)[number]>[] = [
    { title: 'Batch', cell: (row) => `Batch ${count(row.batch)}` },
    ...ways.map((way, k) => ({
      title: wayName(way),
      numeric: true,
      cell: (row: (typeof rows)[number]) => (row.ways[k] ? rateText(row.ways[k]) : '–'),
    })),
  ];
  return (
    <section>
      <h2>Samples a second</h2>
      {plan.best_batch && (
        <p>
          Best: {count(Number(plan.best_batch.samples_per_second.toPrecision(4)))} at batch {count(plan.best_batch.batch)} by{' '}
          {wayName(plan.best_batch)}.
        </p>
      )}
      <Plot
        key={plan.name + plan.device}
        label="Samples a second over batch. The table below has the same numbers."
        height={320}
        data={data}
        make={make}
      />
      <Table caption="Samples a second over batch" columns={columns} rows={rows} rowKey={(row) => row.batch} />
    </section>
  );
}

function Answer({ plan }: { plan: Plan }): VNode {
  const { schedule } = plan;
  return (
    <>
      <h2>{plan.fits ? 'It fits' : 'It does not fit'}</h2>
      {plan.refusal && <p>{plan.refusal}</p>}
      {plan.changes && plan.changes.length > 0 && (
        <section>
          <h3>What would fit</h3>
          <ul>
            {plan.changes.map((change) => (
              <li key={change.arguments}>
                <code>{change.arguments}</code>: {bytes(change.driver_bytes)} by the driver, a step of at most{' '}
                {seconds(change.step_seconds)}
              </li>
            ))}
          </ul>
        </section>
      )}
      <Facts
        list={[
          ...(plan.memory_use
            ? ([
                ['Allocated', bytes(plan.memory_use.allocated_bytes)],
                ['Reserved, with the gaps', bytes(plan.memory_use.reserved_bytes)],
                ['By the driver', `${bytes(plan.memory_use.driver_bytes)} of ${bytes(plan.memory_use.device_bytes)}`],
              ] as [string, string][])
            : []),
          ['Parameters', count(plan.parameters)],
          ...(plan.trained_parameters !== undefined && plan.trained_parameters < plan.parameters
            ? ([['Trained', count(plan.trained_parameters)]] as [string, string][])
            : []),
          ['Precision', plan.precision],
          ...(plan.pipeline
            ? []
            : ([
                ['Storing everything', `${bytes(plan.store_all_peak)}, ${plan.store_all_fits ? 'fits' : 'does not fit'}`],
              ] as [string, string][])),
          ...(schedule && plan.step_seconds
            ? ([
                ['Step', `${seconds(plan.step_seconds)}, ${percent(schedule.overhead)} over storing everything`],
                [
                  'Of that',
                  `compute ${seconds(plan.compute_seconds)}, recomputation ${seconds(plan.recomputation_seconds)}, ` +
                    `communication ${seconds(plan.communication_seconds)}, optimizer ${seconds(plan.update_seconds)}`,
                ],
                ['Schedule', <a href={href(`schedule/${schedule.schedule_id}`)}>{bytes(schedule.arena)}</a>],
              ] as [string, VNode | string][])
            : []),
        ]}
      />
      {plan.pipeline && <PipelineAnswer plan={plan.pipeline} step={plan.step_seconds} />}
      {plan.table && <Bytes table={plan.table} />}
      {plan.rows && plan.rows.length > 0 && <Rates plan={plan} rows={plan.rows} />}
      {plan.assumptions.length > 0 && <p class="quiet">Assumed: {plan.assumptions.join('; ')}.</p>}
      <p class="quiet">Sizes are exact for the operations described; times are a model of the device.</p>
    </>
  );
}

/** What of the model is trained. */
function loraOf(query: URLSearchParams): Record<string, unknown> {
  const rank = Number(query.get('lora') ?? '0');
  return rank > 0 ? { lora: { rank, base: query.get('base') ?? 'frozen' } } : {};
}

/** How ranks share the model. */
function parallelOf(query: URLSearchParams): Record<string, unknown> {
  const kind = query.get('parallel') ?? 'none';
  const ranks = Number(query.get('ranks') ?? '1');
  if (kind === 'none') return {};
  if (kind !== 'pipeline') return { parallel: { kind, ranks } };
  const microbatches = Number(query.get('microbatches') ?? '8');
  const [schedule, runtime] = [query.get('schedule') ?? '1f1b', query.get('runtime') ?? 'pytorch'];
  const replicas = Number(query.get('replicas') ?? '1');
  const axes = replicas > 1 ? { mesh: { dp: replicas, pp: ranks } } : { kind, ranks };
  return { parallel: { ...axes, microbatches, schedule, runtime, play: passesTold(ranks, microbatches) } };
}

function Asked({ query }: { query: URLSearchParams }): VNode {
  const body = {
    model: query.get('model') ?? '',
    batch: Number(query.get('batch')),
    device: query.get('device') ?? '',
    optimizer: query.get('optimizer') ?? 'adamw',
    ...((query.get('kernels') ?? 'eager') !== 'eager' && { kernels: query.get('kernels') }),
    ...((query.get('fp8') ?? 'none') !== 'none' && { fp8: query.get('fp8') }),
    ...loraOf(query),
    ...parallelOf(query),
  };
  const plan = useLoad((signal) => askPlan(body, signal), [query.toString()]);
  return <Show of={plan}>{(found) => <Answer plan={found} />}</Show>;
}

export function PlanView({ route }: { route: Route }): VNode {
  const [loaded] = useState(() => async (signal: AbortSignal): Promise<Choices> => {
    const [models, devices] = await Promise.all([
      get<Pick<Choices, 'models'>>('/v1/models', signal),
      get<Pick<Choices, 'devices'>>('/v1/devices', signal),
    ]);
    return { ...models, ...devices };
  });
  const choices = useLoad(loaded, []);
  return (
    <>
      <Title plain="Plan">Does it fit?</Title>
      <p class="quiet">A model on a device, from shapes alone: nothing is run, nothing is allocated.</p>
      <Show of={choices}>{(found) => <Form query={route.query} choices={found} />}</Show>
      {route.query.get('model') && <Asked query={route.query} />}
    </>
  );
}
