/** One schedule: memory and streams over time, the arena, each operation, what is computed again. */

import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';

import { get, getProfile, post } from './api';
import { Charts } from './charts';
import { downloadCsv, downloadJson, downloadSvg, downloadTrace } from './export';
import { amount, count, percent, seconds, time, when } from './format';
import { Graph } from './graph';
import { Inspector } from './inspector';
import { Key } from './key';
import type { ViewProps } from './main';
import type { Grouping } from './memory';
import { go, href, note, type Route } from './route';
import { FATE_COLOURS, FATES, fatesOf, makeReplay, nodeOf, operationText, type Axis, type Replay } from './replay';
import { measurementColumns } from './schedules';
import { SpanView } from './span_view';
import { colour } from './theme';
import type { Explanation, Measurement, Schedule, ScheduleItem, StoredProfile, Timeline } from './types';
import { Facts, Id, Name, ProblemBox, Retry, Scroll, Show, Table, Tabs, Title, useLoad, type Column } from './ui';

const PARTS = ['timeline', 'nodes', 'operations', 'measurements', 'compare'];

export interface Opened {
  schedule: Schedule;
  profile: StoredProfile;
  replay: Replay;
}

export async function openSchedule(id: string, signal: AbortSignal): Promise<Opened> {
  const [schedule, timeline] = await Promise.all([
    get<Schedule>(`/v1/schedules/${id}`, signal),
    get<Timeline>(`/v1/schedules/${id}/timeline`, signal),
  ]);
  const profile = await getProfile(schedule.profile_id, signal);
  return { schedule, profile, replay: makeReplay(schedule, timeline, profile.profile) };
}

/* ---- facts ---- */

export function claim(schedule: Schedule): string {
  if (schedule.optimality === 'optimal-in-class') return `optimal among ${schedule.class}`;
  return schedule.optimality;
}

function ofAll({ bound_class, class: own }: Schedule): boolean {
  return (bound_class ?? own) === 'all schedules';
}

/** A bound that holds for every schedule: where that of the answer does not, every node runs once at least. */
export function boundOfAll(schedule: Schedule): number {
  return ofAll(schedule) ? schedule.lower_bound : schedule.store_all_makespan;
}

function boundText(schedule: Schedule): string {
  const { lower_bound, gap, time_unit, bound_class, class: own } = schedule;
  const text = `${time(lower_bound, time_unit)}, gap ${percent(gap)}`;
  return ofAll(schedule) ? `${text}, of all schedules` : `${text}, only of ${bound_class ?? own}`;
}

/** Of a rank of a pipeline. */
function inFlight({ in_flight, held }: Schedule): string {
  return `${count(in_flight ?? 1)} micro-batches, each holding ${amount(held ?? 0)}`;
}

function ScheduleFacts({ schedule }: { schedule: Schedule }): VNode {
  const unit = schedule.time_unit;
  const pebbles = schedule.model === 'pebble';
  const auto = schedule.requested_solver !== schedule.solver;
  return (
    <Facts
      list={[
        ['solver', schedule.solver + (auto ? ` (${schedule.requested_solver})` : '')],
        ['claim', claim(schedule)],
        [
          'budget',
          `${amount(schedule.budget, pebbles)}, ${percent(schedule.budget / schedule.store_all_peak)} of storing all`,
        ],
        ['peak', amount(schedule.peak, pebbles)],
        ...(schedule.in_flight === undefined ? [] : [['in flight', inFlight(schedule)] as [string, string]]),
        ...(schedule.arena === undefined ? [] : [['arena', amount(schedule.arena)] as [string, string]]),
        ['makespan', time(schedule.makespan, unit)],
        ['overhead', percent(schedule.overhead)],
        ['recomputed', time(schedule.recomputed_time, unit)],
        ['lower bound', boundText(schedule)],
        ['operations', count(schedule.operations.length)],
        ['solved in', seconds(schedule.solve_seconds) + (schedule.cut_short ? ', cut short by the limit of a solve' : '')],
        ['solved', when(schedule.created)],
        ['schedule', <Id id={schedule.schedule_id} />],
      ]}
    />
  );
}

const TOPICS: Record<string, string> = { least: 'least budget', next: 'more memory' };

/** Sentences one after the other that are of the same matter. */
function topicsOf({ sentences }: Explanation): { topic: string; texts: string[] }[] {
  const topics: { topic: string; texts: string[] }[] = [];
  for (const { topic, text } of sentences) {
    const last = topics[topics.length - 1];
    if (last?.topic === topic) last.texts.push(text);
    else topics.push({ topic, texts: [text] });
  }
  return topics;
}

/** Why the schedule is as it is, in the service's words. */
function Explained({ schedule }: { schedule: Schedule }): VNode | null {
  const path = `/v1/schedules/${schedule.schedule_id}/explanation`;
  const explanation = useLoad((signal) => get<Explanation>(path, signal), [path]);
  if (explanation.problem) return <Retry problem={explanation.problem} retry={explanation.retry} />;
  if (!explanation.data) return null;
  return (
    <dl class="explained" aria-label="Why it is as it is">
      {topicsOf(explanation.data).map(({ topic, texts }) => (
        <div>
          <dt>{TOPICS[topic] ?? topic}</dt>
          <dd>
            <bdi>{texts.join(' ')}</bdi>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/* ---- the timeline ---- */

function AxisChoice({ axis, onAxis }: { axis: Axis; onAxis: (axis: Axis) => void }): VNode {
  return (
    <fieldset class="choice">
      <legend class="hidden">Across</legend>
      {(['time', 'operations'] as Axis[]).map((one) => (
        <label>
          <input type="radio" name="axis" checked={axis === one} onChange={() => onAxis(one)} /> {one}
        </label>
      ))}
    </fieldset>
  );
}

function GroupingChoice({ grouping, onGrouping }: { grouping: Grouping; onGrouping: (to: Grouping) => void }): VNode {
  return (
    <label class="inline">
      Stacked by{' '}
      <select value={grouping} onChange={(event) => onGrouping(event.currentTarget.value as Grouping)}>
        <option value="kind">kind</option>
        <option value="layer">layer</option>
      </select>
    </label>
  );
}

/** Finds layers by their names; Enter goes from one operation of them to the next. */
function LayerSearch({ replay, view }: { replay: Replay; view: SpanView }): VNode {
  const [text, setText] = useState('');
  const [told, setTold] = useState('');
  const search = (wanted: string) => {
    setText(wanted);
    const found = replay.profile.nodes.map((node) => node.id.toLowerCase().includes(wanted.toLowerCase()));
    const runs = view.nodes.filter((node) => found[node]).length;
    setTold(wanted && `${count(found.filter(Boolean).length)} nodes, ${count(runs)} operations`);
    view.find(wanted ? found : undefined);
  };
  return (
    <form
      class="find"
      role="search"
      onSubmit={(event) => (event.preventDefault(), view.goTo((node) => view.found?.[node] === true))}
    >
      <label>
        <span class="hidden">Search layers by name</span>
        <input
          type="search"
          value={text}
          placeholder="Search layers"
          onInput={(event) => search(event.currentTarget.value)}
        />
      </label>
      <span role="status" class="quiet">
        {told}
      </span>
    </form>
  );
}

/** What becomes of each node under the schedule; the node of the operation looked at is selected. */
function Fates({ replay, view }: { replay: Replay; view: SpanView }): VNode {
  const fates = useMemo(() => fatesOf(replay), [replay]);
  const [{ selected, found }, setSeen] = useState({ selected: view.nodes[view.step] ?? -1, found: view.found });
  useEffect(
    () =>
      view.listen(() => {
        const selected = view.nodes[view.step] ?? -1;
        setSeen((seen) =>
          seen.selected === selected && seen.found === view.found ? seen : { selected, found: view.found },
        );
      }),
    [view],
  );
  const sum = (first: number, end: number, fate: number) =>
    fates.slice(first, end).reduce((all, shares) => all + (shares[fate] ?? 0), 0);
  const look = useMemo(
    () => (first: number, end: number) => ({
      parts: FATE_COLOURS.map((ink, fate) => ({ fill: colour(ink), share: sum(first, end, fate) / (end - first) })),
      ink: colour('on-act'),
    }),
    [fates],
  );
  const has = (first: number, end: number, fate: number) =>
    fates.slice(first, end).filter((shares) => (shares[fate] ?? 0) > 0).length;
  const tell = (first: number, end: number) =>
    FATES.flatMap((name, fate) => {
      const nodes = has(first, end, fate);
      return nodes > 0 ? [end - first > 1 ? `${nodes} ${name}` : name] : [];
    }).join(', ');
  return (
    <Graph
      profile={replay.profile}
      height={460}
      meaning="what becomes of each node"
      legend={
        <span class="legend">
          {FATES.map((name, fate) => {
            const nodes = has(0, fates.length, fate);
            return nodes > 0 && <Key name={`${count(nodes)} ${name}`} ink={FATE_COLOURS[fate] ?? ''} />;
          })}
        </span>
      }
      look={look}
      tell={tell}
      selected={selected}
      onSelect={(node) => node >= 0 && view.goTo((one) => one === node)}
      found={found}
    />
  );
}

function TimelinePart({ opened, route }: { opened: Opened; route: Route }): VNode {
  const { schedule, replay } = opened;
  const { query } = route;
  const [axis, setAxis] = useState<Axis>(query.get('x') === 'operations' ? 'operations' : 'time');
  const [grouping, setGrouping] = useState<Grouping>(query.get('by') === 'layer' ? 'layer' : 'kind');
  const view = useMemo(
    () => new SpanView(replay, axis, Math.max(0, Number(query.get('step') ?? replay.peakOperation))),
    [replay],
  );
  if (replay.n === 0) return <p>The schedule has no operations.</p>;
  const choose = (to: Axis) => {
    view.setAxis(to);
    setAxis(to);
    note({ x: to === 'time' ? undefined : to });
  };
  const group = (to: Grouping) => {
    setGrouping(to);
    note({ by: to === 'kind' ? undefined : to });
  };
  return (
    <>
      <div class="bar timeline">
        <AxisChoice axis={axis} onAxis={choose} />
        {replay.values.length > 0 && <GroupingChoice grouping={grouping} onGrouping={group} />}
        {!replay.pebbles && <LayerSearch replay={replay} view={view} />}
        <span class="spring" />
        <button type="button" aria-label="Zoom in" onClick={() => view.zoom(1.5)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={() => view.zoom(1 / 1.5)}>
          −
        </button>
        <button type="button" onClick={() => view.all()}>
          All
        </button>
      </div>
      <Charts key={axis} replay={replay} view={view} grouping={grouping} />
      <p class="quiet">
        On a chart: a click looks at an operation, dragging selects, W S or the wheel zoom, A D or Shift and dragging
        move, 0 shows all, ← → step, P goes to the peak.
      </p>
      <Explained schedule={schedule} />
      <div class={replay.pebbles ? '' : 'beside'}>
        {!replay.pebbles && <Fates replay={replay} view={view} />}
        <Inspector replay={replay} view={view} />
      </div>
    </>
  );
}

/* ---- nodes ---- */

interface NodeRow {
  index: number;
  id: string;
  fate: string;
  runs: number;
  time: number;
  /** Its first operation. */
  first: number;
}

function nodeRows(replay: Replay): NodeRow[] {
  const first = new Map<number, number>();
  for (let i = replay.n - 1; i >= 0; i--) first.set(nodeOf(replay, i), i);
  return fatesOf(replay)
    .map((shares, index) => ({
      index,
      id: replay.profile.nodes[index]?.id ?? '',
      fate: FATES.filter((_, fate) => (shares[fate] ?? 0) > 0).join(', '),
      runs: replay.runs[index] ?? 0,
      time: replay.recomputed[index] ?? 0,
      first: first.get(index) ?? 0,
    }))
    .sort((a, b) => b.time - a.time);
}

function NodesPart({ replay }: { replay: Replay }): VNode {
  const rows = useMemo(() => nodeRows(replay), [replay]);
  if (replay.pebbles) return <p>The pebble model moves steps, not nodes; see the operations.</p>;
  const columns: Column<NodeRow>[] = [
    { title: '#', key: (row) => row.index, cell: (row) => row.index, numeric: true },
    {
      title: 'Node',
      key: (row) => row.id,
      cell: (row) => (
        <a href={href(`schedule/${replay.id}/timeline`, { step: row.first })}>
          <Name text={row.id} />
        </a>
      ),
    },
    { title: 'Becomes', key: (row) => row.fate, cell: (row) => row.fate },
    { title: 'Runs', key: (row) => row.runs, cell: (row) => row.runs, numeric: true },
    {
      title: 'Recompute time',
      key: (row) => row.time,
      cell: (row) => time(row.time, replay.timeUnit),
      numeric: true,
    },
    {
      title: 'Of the step',
      key: (row) => row.time,
      cell: (row) => percent(row.time / replay.makespan),
      numeric: true,
    },
  ];
  return <Table caption="What becomes of the nodes" columns={columns} rows={rows} rowKey={(row) => row.index} />;
}

/* ---- operations ---- */

function OperationsPart({ replay }: { replay: Replay }): VNode {
  const rows = useMemo(() => Array.from({ length: replay.n }, (_, i) => i), [replay]);
  const columns: Column<number>[] = [
    {
      title: '#',
      key: (i) => i,
      cell: (i) => <a href={href(`schedule/${replay.id}/timeline`, { step: i })}>{i}</a>,
      numeric: true,
    },
    { title: 'Operation', key: (i) => operationText(replay, i), cell: (i) => <Name text={operationText(replay, i)} /> },
    {
      title: 'Begins',
      key: (i) => replay.stream.from[i] ?? 0,
      cell: (i) => time(replay.stream.from[i] ?? 0, replay.timeUnit),
      numeric: true,
    },
    {
      title: 'Ends',
      key: (i) => replay.stream.to[i] ?? 0,
      cell: (i) => time(replay.stream.to[i] ?? 0, replay.timeUnit),
      numeric: true,
    },
    {
      title: 'Memory during',
      key: (i) => replay.during[i] ?? 0,
      cell: (i) => amount(replay.during[i] ?? 0, replay.pebbles),
      numeric: true,
    },
    {
      title: 'Memory after',
      key: (i) => replay.after[i] ?? 0,
      cell: (i) => amount(replay.after[i] ?? 0, replay.pebbles),
      numeric: true,
    },
  ];
  return <Table caption="Operations" columns={columns} rows={rows} rowKey={(i) => i} pageSize={100} />;
}

/* ---- measurements, and who else was asked ---- */

function MeasurementsPart({ schedule }: { schedule: Schedule }): VNode {
  const page = useLoad(
    (signal) => get<{ measurements: Measurement[] }>(`/v1/schedules/${schedule.schedule_id}/measurements`, signal),
    [schedule],
  );
  return (
    <Show of={page}>
      {({ measurements }) =>
        measurements.length === 0 ? (
          <p>No training job has posted one.</p>
        ) : (
          <Table
            caption="Measurements"
            columns={measurementColumns(schedule.time_unit, () => schedule.makespan)}
            rows={measurements}
            rowKey={(m) => m.id}
          />
        )
      }
    </Show>
  );
}

function Candidates({ schedule }: { schedule: Schedule }): VNode | null {
  if (!schedule.candidates) return null;
  return (
    <details>
      <summary>{schedule.candidates.length} solvers were asked</summary>
      <Scroll label="How each solver did">
        <table>
          <caption class="hidden">How each solver did</caption>
          <thead>
            <tr>
              <th scope="col">Solver</th>
              <th scope="col" class="number">
                Makespan
              </th>
              <th scope="col" class="number">
                Peak
              </th>
            </tr>
          </thead>
          <tbody>
            {schedule.candidates.map((one) => (
              <tr>
                <td>{one.solver}</td>
                <td class="number">
                  {one.makespan === undefined ? 'nothing fits' : time(one.makespan, schedule.time_unit)}
                </td>
                <td class="number">
                  {one.peak === undefined ? `from ${amount(one.minimum_budget ?? 0)}` : amount(one.peak)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}

/* ---- comparing ---- */

const STORE_ALL = 'store-all';

/** The id of the schedule that stores everything. */
async function storeAll({ profile_id, store_all_peak }: Schedule): Promise<string> {
  const question = { profile_id, solver: STORE_ALL, budget: store_all_peak, layout: false };
  const answer = await post<Schedule>('/v1/schedules', question);
  return answer.data.schedule_id;
}

function ComparePart({ schedule }: { schedule: Schedule }): VNode {
  const others = useLoad(
    (signal) => get<{ schedules: ScheduleItem[] }>(`/v1/schedules?profile_id=${schedule.profile_id}&limit=500`, signal),
    [schedule],
  );
  const [refused, setRefused] = useState<unknown>(undefined);
  const compare = async (chosen: string) => {
    const other = chosen === STORE_ALL ? await storeAll(schedule) : chosen;
    go(`compare/${schedule.schedule_id}/${other}`);
  };
  if (refused !== undefined) return <ProblemBox problem={refused} />;
  return (
    <Show of={others}>
      {({ schedules }) => {
        const rows = schedules.filter((one) => one.schedule_id !== schedule.schedule_id);
        const all = schedule.model !== 'pebble' && !rows.some((one) => one.solver === STORE_ALL);
        if (rows.length === 0 && !all) return <p>The profile has no other schedule.</p>;
        return (
          <label>
            Compare with
            <select value="" onChange={(event) => void compare(event.currentTarget.value).catch(setRefused)}>
              <option value="" disabled>
                choose one
              </option>
              {all && <option value={STORE_ALL}>storing everything</option>}
              {rows.map((one) => (
                <option value={one.schedule_id}>
                  {one.solver}, budget {amount(one.budget, schedule.model === 'pebble')},{' '}
                  {time(one.makespan, schedule.time_unit)} ({one.schedule_id.slice(0, 8)})
                </option>
              ))}
            </select>
          </label>
        );
      }}
    </Show>
  );
}

/* ---- the view ---- */

function Part({ part, opened, route }: { part: string; opened: Opened; route: Route }): VNode {
  const { schedule, replay } = opened;
  if (part === 'nodes') return <NodesPart replay={replay} />;
  if (part === 'operations') return <OperationsPart replay={replay} />;
  if (part === 'measurements') return <MeasurementsPart schedule={schedule} />;
  if (part === 'compare') return <ComparePart schedule={schedule} />;
  return <TimelinePart opened={opened} route={route} />;
}

export function ScheduleView({ route }: ViewProps): VNode {
  const id = route.path[1] ?? '';
  const part = PARTS.includes(route.path[2] ?? '') ? (route.path[2] ?? '') : 'timeline';
  const opened = useLoad((signal) => openSchedule(id, signal), [id]);
  const [refused, setRefused] = useState<unknown>(undefined);
  return (
    <Show of={opened}>
      {(data) => (
        <>
          <p class="crumbs">
            <a href={href('profiles')}>Profiles</a> /{' '}
            <a href={href(`profile/${data.profile.profile_id}/schedules`)}>
              <Name text={data.profile.name} />
            </a>
          </p>
          <Title plain={`${data.schedule.solver} of ${data.profile.name}`}>
            {amount(data.schedule.budget, data.replay.pebbles)} by {data.schedule.solver}
          </Title>
          <ScheduleFacts schedule={data.schedule} />
          <div class="bar top">
            <Candidates schedule={data.schedule} />
            <span class="spring" />
            <span class="actions">
              <span class="quiet">Download</span>
              <button type="button" onClick={() => downloadJson(data.schedule)}>
                JSON
              </button>
              <button type="button" onClick={() => downloadCsv(data.replay)}>
                CSV
              </button>
              <button type="button" onClick={() => downloadSvg(data.replay)}>
                SVG
              </button>
              <button
                type="button"
                title="for ui.perfetto.dev and chrome://tracing"
                onClick={() => void downloadTrace(id).then(() => setRefused(undefined), setRefused)}
              >
                Trace
              </button>
            </span>
          </div>
          {refused !== undefined && <ProblemBox problem={refused} />}
          <Tabs label="Parts of the schedule" path={`schedule/${id}`} parts={PARTS} now={part} />
          <Part key={part} part={part} opened={data} route={route} />
        </>
      )}
    </Show>
  );
}
