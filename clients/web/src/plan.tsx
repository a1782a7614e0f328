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

/** Of the batch asked for, by a way that people use. */
interface Usual {
  way: string;
  fits: boolean;
  peak: number;
  step_seconds: number;
  memory_use: Memory;
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
  changes?: { arguments: string; way: string; driver_bytes: number; step_seconds: number }[];
  step_seconds?: number;
  samples_per_second?: number;
  compute_seconds: number;
  recomputation_seconds: number;
  communication_seconds: number;
  update_seconds: number;
  schedule?: { schedule_id: string; overhead: number; arena: number; gap?: number };
  ways?: Usual[];
  times_of?: string;
  rescaled?: boolean;
  largest?: { way: string; offload: boolean; batch: number }[];
  rows?: { batch: number; ways: Way[] }[];
  best_batch?: { way: string; offload: boolean; batch: number; samples_per_second: number } | null;
}

interface Choices {
  models: { name: string; title: string }[];
  devices: { name: string; title: string }[];
}

const OPTIMIZERS = ['adamw', 'adam', 'adam8bit', 'adafactor', 'momentum', 'sgd'];
const KERNELS = ['eager', 'compiled', 'compiled-loss', 'chunked-loss', 'fused'].map((name) => ({ name, title: name }));
const FLOAT8 = ['none', 'torchao', 'torchao-gather', 'te', 'te-weights'].map((name) => ({ name, title: name }));
const BASES = ['frozen', 'nf4', 'nf4-double'].map((name) => ({ name, title: name }));
const KINDS = ['none', 'ddp', 'zero1', 'zero2', 'zero3', 'tensor', 'sequence', 'context', 'expert', 'pipeline'].map((name) => ({ name, title: name }));
const ORDERS = ['1f1b', 'gpipe', 'interleaved'].map((name) => ({ name, title: name }));
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
/** What else the command has, by member of the request: a number, a text, a choice of words, a mark that is true, or false. */
type More = [member: string, label: string, kind: 'number' | 'text' | 'list' | 'true' | 'false' | string[]];
const MORE: [string, More[]][] = [
  [
    'Sizes',
    [
      ['sequence', 'Tokens', 'number'],
      ['image', 'Pixels a side', 'number'],
      ['layers', 'Blocks', 'number'],
      ['sizes.hidden', 'Columns', 'number'],
      ['sizes.heads', 'Heads', 'number'],
      ['sizes.kv_heads', 'Heads of keys and values', 'number'],
      ['sizes.head', 'Columns of a head', 'number'],
      ['sizes.ffn', 'Columns of an MLP', 'number'],
      ['sizes.vocab', 'Words', 'number'],
      ['sizes.window', 'Tokens that attention sees back', 'number'],
      ['sizes.experts', 'Experts', 'number'],
      ['sizes.experts_per_token', 'Experts a token takes', 'number'],
      ['routing.capacity_factor', 'Capacity of an expert, of an even share', 'number'],
      ['routing.load', 'Load of experts', ['balanced', 'worst']],
    ],
  ],
  [
    'Precision and kernels',
    [
      ['precision', 'Precision', ['float32', 'tf32', 'bfloat16', 'float16']],
      ['autocast', 'Autocast', 'true'],
      ['master_weights', 'No weights in float32 beside', 'false'],
      ['attention', 'Attention', ['fused', 'eager']],
      ['channels_last', 'Channels last', 'true'],
      ['lora.targets', 'Matrices with adapters (q,v)', 'list'],
      ['lora.dropout', 'Dropout before adapters', 'true'],
      ['optimizer_in_backward', 'Weights are updated in the backward', 'true'],
      ['keep_gradients', 'Gradients stay', 'true'],
    ],
  ],
  [
    'Ranks and memory',
    [
      ['device_memory', 'Memory, in place of its own (12GiB)', 'text'],
      ['mesh', 'Mesh, in place of ranks (dp=8,tp=4)', 'text'],
      ['network', 'Network (nvlink4+ndr)', 'text'],
      ['node_ranks', 'Ranks of a node', 'number'],
      ['parallel.chunks', 'Stages of a rank, of interleaved', 'number'],
      ['parallel.bucket_view', 'Gradients lie in buckets', 'true'],
      ['parallel.prefetch', 'Gathers one unit at a time', 'false'],
      ['offload', 'May offload to the host', 'true'],
      ['sweep', 'No table over batches', 'false'],
      ['solver', 'Solver', 'text'],
      ['effort', 'Effort', ['quick', 'thorough']],
    ],
  ],
  [
    'In place of the model',
    [
      ['config', 'A config.json of Hugging Face', 'text'],
      ['profile_id', 'Id of a profile', 'text'],
      ['parameters', 'Its parameters', 'number'],
      ['measured_on', 'Measured on', 'text'],
    ],
  ],
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
  const names: Record<string, string> = { blocks: 'per-block checkpointing', offloaded: 'per-block checkpointing, inputs at the host' };
  const name = names[way.way] ?? way.way;
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

/** Left empty it is as usual. */
function Further({ of: [member, label, kind], value }: { of: More; value: string }): VNode {
  if (kind === 'true' || kind === 'false')
    return (
      <label>
        <input type="checkbox" name={member} value="yes" checked={value === 'yes'} /> {label}
      </label>
    );
  if (Array.isArray(kind)) {
    const list = [{ name: '', title: 'as usual' }, ...kind.map((name) => ({ name, title: name }))];
    return <Choice label={label} name={member} value={value} list={list} />;
  }
  return (
    <label>
      {label}
      {kind === 'number' ? (
        <input name={member} type="number" min={0} step="any" value={value} />
      ) : (
        <input name={member} type="text" value={value} />
      )}
    </label>
  );
}

function Form({ query, choices }: { query: URLSearchParams; choices: Choices }): VNode {
  const submit = (event: Event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const beside = form.getAll('beside').join(',');
    go('plan', { ...Object.fromEntries([...form].map(([name, value]) => [name, String(value)])), beside });
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
      {MORE.map(([title, list]) => (
        <details open={list.some(([member]) => query.has(member))}>
          <summary>{title}</summary>
          <div class="columns">
            {list.map((one) => (
              <Further key={one[0]} of={one} value={query.get(one[0]) ?? ''} />
            ))}
          </div>
        </details>
      ))}
      <details open={query.has('beside')}>
        <summary>Several side by side</summary>
        <label>
          Beside it
          <select name="beside" multiple size={6}>
            {choices.devices.map((one) => (
              <option value={one.name} selected={(query.get('beside') ?? '').split(',').includes(one.name)}>
                {one.title}
              </option>
            ))}
          </select>
        </label>
      </details>
      <p class="actions">
        <button type="submit" class="primary">
          Plan
        </button>
      </p>
    </form>
  );
}

/* ---- the answer ---- */

function inkOf(k: number): { fill: string; opacity: number } {
  return { fill: `var(--${INKS[k % INKS.length] ?? 'series-1'})`, opacity: k + 1 === PARTS.length ? 0.15 : k < INKS.length ? 1 : 0.55 };
}

/** The device, with what takes it beside one another. */
function Bar({ table }: { table: Record<string, number> }): VNode {
  const whole = Math.max(table.memory ?? 1, table.taken_bytes ?? 0);
  const widths = PARTS.map(([name]) => (100 * (table[name] ?? 0)) / whole);
  return (
    <svg class="device-bar" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="The device, by what takes it: the table below.">
      {widths.map((width, k) => (
        <rect x={widths.slice(0, k).reduce((sum, one) => sum + one, 0)} width={width} height={4} {...inkOf(k)} />
      ))}
    </svg>
  );
}

function Bytes({ table }: { table: Record<string, number> }): VNode {
  const memory = table.memory ?? 1;
  const columns: Column<(typeof PARTS)[number]>[] = [
    {
      title: 'What',
      cell: (part) => (
        <>
          <svg width="10" height="10" aria-hidden="true">
            <rect width="10" height="10" {...inkOf(PARTS.indexOf(part))} />
          </svg>{' '}
          {part[1]}
        </>
      ),
    },
    { title: 'Bytes', numeric: true, cell: ([name]) => bytes(table[name] ?? 0) },
    { title: `Part of ${bytes(memory)}`, numeric: true, cell: ([name]) => percent((table[name] ?? 0) / memory) },
  ];
  return (
    <div class="few">
      <Bar table={table} />
      <Table caption="What takes how much" columns={columns} rows={PARTS} rowKey={([name]) => name} />
    </div>
  );
}

/** Beside the plan, what people use. */
function Usually({ ways }: { ways: Usual[] }): VNode {
  const columns: Column<Usual>[] = [
    { title: 'Way', cell: (one) => wayName({ way: one.way, offload: false }) },
    { title: 'Activations', numeric: true, cell: (one) => bytes(one.peak) },
    { title: 'By the driver', numeric: true, cell: (one) => bytes(one.memory_use.driver_bytes) },
    { title: 'Step', numeric: true, cell: (one) => seconds(one.step_seconds) },
    { title: 'Fits', cell: (one) => (one.fits ? 'yes' : 'no') },
  ];
  return (
    <div class="few">
      <Table caption="By ways that people use" columns={columns} rows={ways} rowKey={(one) => one.way} />
    </div>
  );
}

/** The same question of several devices, each by a plan of its own. */
function Devices({ plans }: { plans: Plan[] }): VNode {
  const columns: Column<Plan>[] = [
    { title: 'Device', cell: (one) => one.device },
    { title: 'Fits', cell: (one) => (one.fits ? 'yes' : 'no') },
    {
      title: 'By the driver',
      numeric: true,
      cell: (one) => (one.memory_use ? `${bytes(one.memory_use.driver_bytes)} of ${bytes(one.memory_use.device_bytes)}` : '–'),
    },
    { title: 'Step', numeric: true, cell: (one) => (one.step_seconds === undefined ? '–' : seconds(one.step_seconds)) },
    {
      title: 'Samples a second',
      numeric: true,
      cell: (one) => (one.samples_per_second === undefined ? '–' : count(Number(one.samples_per_second.toPrecision(4)))),
    },
  ];
  return <Table caption="On several devices" columns={columns} rows={plans} rowKey={(one) => one.device} />;
}

/** The largest batch, without offloading and with. */
function largestText(plan: Plan): string {
  const most = (offload: boolean) =>
    (plan.largest ?? []).filter((one) => one.offload === offload).reduce<{ way: string; offload: boolean; batch: number } | null>(
      (best, one) => (one.batch > (best?.batch ?? 0) ? one : best),
      null,
    );
  const [without, having] = [most(false), most(true)];
  const told = [without, having && having.batch > (without?.batch ?? 0) ? having : null].filter((one) => one !== null);
  return told.map((one) => `batch ${count(one.batch)} or more, ${wayName(one)}`).join('; ');
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
                <code>{change.arguments}</code>: {bytes(change.driver_bytes)} by the driver, a step of{' '}
                {seconds(change.step_seconds)}
                {change.way === 'remat' ? '' : `, by ${change.way}`}
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
          ...(plan.rescaled ? ([['Times', `of ${plan.times_of ?? ''}, rescaled by the rooflines of both`]] as [string, string][]) : []),
          ...(plan.samples_per_second
            ? ([['Samples a second', count(Number(plan.samples_per_second.toPrecision(4)))]] as [string, string][])
            : []),
          ...(largestText(plan) ? ([['Largest', largestText(plan)]] as [string, string][]) : []),
          ...(schedule?.gap !== undefined ? ([['Gap to the lower bound', percent(schedule.gap)]] as [string, string][]) : []),
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
      {plan.ways && <Usually ways={plan.ways} />}
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

/** "dp=8,tp=4"; null: nothing. */
function axesOf(text: string): Record<string, number> | null {
  return text ? Object.fromEntries(text.split(',').map((one) => [one.split('=')[0] ?? '', Number(one.split('=')[1])])) : null;
}

/** What else is given; of adapters and ranks only where there are some. */
function furtherOf(query: URLSearchParams, body: Record<string, unknown>): Record<string, unknown> {
  const made = { ...body };
  for (const [member, , kind] of MORE.flatMap(([, list]) => list)) {
    const text = query.get(member) ?? '';
    const [outer = '', inner] = member.split('.');
    if (!text || member === 'mesh' || (['lora', 'parallel'].includes(outer) && !body[outer])) continue;
    const marks = kind === 'true' || kind === 'false';
    const plain = kind === 'number' ? Number(text) : kind === 'list' ? text.split(',') : member === 'config' ? JSON.parse(text) : text;
    const value: unknown = marks ? kind === 'true' : plain;
    made[outer] = inner === undefined ? value : { ...(made[outer] as object), [inner]: value };
  }
  if (made.config || made.profile_id) delete made.model;
  if (made.profile_id) delete made.batch;
  return made;
}

/** How ranks share the model. */
function parallelOf(query: URLSearchParams): Record<string, unknown> {
  const kind = query.get('parallel') ?? 'none';
  const ranks = Number(query.get('ranks') ?? '1');
  const mesh = axesOf(query.get('mesh') ?? '');
  if (kind === 'none' && !mesh) return {};
  if (mesh && !mesh.pp) return { parallel: { mesh, ...(kind !== 'none' && { kind }) } };
  if (!mesh && kind !== 'pipeline') return { parallel: { kind, ranks } };
  const microbatches = Number(query.get('microbatches') ?? '8');
  const [schedule, runtime] = [query.get('schedule') ?? '1f1b', query.get('runtime') ?? 'pytorch'];
  const replicas = Number(query.get('replicas') ?? '1');
  const axes = mesh ? { mesh } : replicas > 1 ? { mesh: { dp: replicas, pp: ranks } } : { kind, ranks };
  const play = schedule !== 'interleaved' && passesTold(mesh?.pp ?? ranks, microbatches);
  return { parallel: { ...axes, microbatches, schedule, runtime, play } };
}

function Asked({ query }: { query: URLSearchParams }): VNode {
  const asked = {
    model: query.get('model') ?? '',
    batch: Number(query.get('batch')),
    device: query.get('device') ?? '',
    optimizer: query.get('optimizer') ?? 'adamw',
    ...((query.get('kernels') ?? 'eager') !== 'eager' && { kernels: query.get('kernels') }),
    ...((query.get('fp8') ?? 'none') !== 'none' && { fp8: query.get('fp8') }),
    ...loraOf(query),
    ...parallelOf(query),
  };
  const beside = (query.get('beside') ?? '').split(',').filter(Boolean);
  const ask = async (signal: AbortSignal) => {
    const body = furtherOf(query, asked);
    const others = beside.map((device) => ({ ...body, device, device_memory: undefined, ...(body.profile_id ? {} : { sweep: false }) }));
    return Promise.all([body, ...others].map((one) => askPlan(one, signal)));
  };
  const plans = useLoad(ask, [query.toString()]);
  return (
    <Show of={plans}>
      {(found) => (
        <>
          {found.slice(0, 1).map((plan) => (
            <Answer plan={plan} />
          ))}
          {found.length > 1 && <Devices plans={found} />}
        </>
      )}
    </Show>
  );
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
