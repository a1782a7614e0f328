/** One schedule: memory and streams over time, the arena, each operation, what is computed again. */

import type { VNode } from 'preact';
import { useMemo, useState } from 'preact/hooks';

import { get, getProfile } from './api';
import { Charts } from './charts';
import { downloadCsv, downloadJson, downloadSvg } from './export';
import { amount, count, percent, seconds, time, when } from './format';
import { Graph } from './graph';
import { Inspector } from './inspector';
import type { ViewProps } from './main';
import { go, href, note, type Route } from './route';
import { makeReplay, operationText, type Axis, type Replay } from './replay';
import { measurementColumns } from './schedules';
import { SpanView } from './span_view';
import type { Measurement, Profile, Schedule, ScheduleItem, StoredProfile, Timeline } from './types';
import { Facts, Id, Name, Scroll, Show, Table, Tabs, Title, useLoad, type Column } from './ui';

const PARTS = ['timeline', 'recomputation', 'operations', 'measurements', 'compare'];

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
        ...(schedule.arena === undefined ? [] : [['arena', amount(schedule.arena)] as [string, string]]),
        ['makespan', time(schedule.makespan, unit)],
        ['overhead', percent(schedule.overhead)],
        ['computed again', time(schedule.recomputed_time, unit)],
        [
          'lower bound',
          `${time(schedule.lower_bound, unit)}, gap ${percent(schedule.gap)} (${schedule.bound_class ?? schedule.class})`,
        ],
        ['operations', count(schedule.operations.length)],
        ['solved in', seconds(schedule.solve_seconds)],
        ['solved', when(schedule.created)],
        ['schedule', <Id id={schedule.schedule_id} />],
      ]}
    />
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

function TimelinePart({ replay, route }: { replay: Replay; route: Route }): VNode {
  const [axis, setAxis] = useState<Axis>(route.query.get('x') === 'operations' ? 'operations' : 'time');
  const view = useMemo(() => new SpanView(replay, axis, Number(route.query.get('step') ?? 0)), [replay]);
  if (replay.n === 0) return <p>The schedule has no operations.</p>;
  const choose = (to: Axis) => {
    view.setAxis(to);
    setAxis(to);
    note({ x: to === 'time' ? undefined : to });
  };
  return (
    <>
      <div class="bar">
        <AxisChoice axis={axis} onAxis={choose} />
        <span class="hint quiet">Click a chart, then ← → step, + − or the wheel zoom.</span>
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
      <Charts key={axis} replay={replay} view={view} />
      <Inspector replay={replay} view={view} />
    </>
  );
}

/* ---- recomputation ---- */

interface Again {
  index: number;
  id: string;
  runs: number;
  time: number;
}

function RecomputationPart({ replay, profile }: { replay: Replay; profile: Profile }): VNode {
  const [selected, setSelected] = useState(-1);
  const rows: Again[] = useMemo(
    () =>
      profile.nodes
        .map((node, index) => ({
          index,
          id: node.id,
          runs: replay.runs[index] ?? 0,
          time: replay.recomputed[index] ?? 0,
        }))
        .filter((row) => row.runs > 1)
        .sort((a, b) => b.time - a.time),
    [replay],
  );
  if (replay.pebbles) return <p>The pebble model moves steps, not nodes; see the operations.</p>;
  const columns: Column<Again>[] = [
    { title: '#', key: (row) => row.index, cell: (row) => row.index, numeric: true },
    { title: 'Node', key: (row) => row.id, cell: (row) => <Name text={row.id} /> },
    { title: 'Forwards', key: (row) => row.runs, cell: (row) => row.runs, numeric: true },
    { title: 'Time again', key: (row) => row.time, cell: (row) => time(row.time, replay.timeUnit), numeric: true },
  ];
  return (
    <>
      <Graph
        profile={profile}
        values={replay.recomputed}
        meaning="time computed again"
        show={(value) => time(value, replay.timeUnit)}
        selected={selected}
        onSelect={setSelected}
      />
      {rows.length === 0 ? (
        <p>Nothing is computed twice.</p>
      ) : (
        <Table
          caption="Nodes computed again"
          columns={columns}
          rows={rows}
          rowKey={(row) => row.index}
          rowClass={(row) => (row.index === selected ? 'selected' : '')}
        />
      )}
    </>
  );
}

/* ---- operations ---- */

function OperationsPart({ replay }: { replay: Replay }): VNode {
  const rows = useMemo(() => Array.from({ length: replay.n }, (_, i) => i), [replay]);
  const columns: Column<number>[] = [
    {
      title: '#',
      key: (i) => i,
      cell: (i) => <a href={href(`schedule/${replay.id}/timeline`, { step: i })}>{i + 1}</a>,
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

function ComparePart({ schedule }: { schedule: Schedule }): VNode {
  const others = useLoad(
    (signal) => get<{ schedules: ScheduleItem[] }>(`/v1/schedules?profile_id=${schedule.profile_id}&limit=500`, signal),
    [schedule],
  );
  return (
    <Show of={others}>
      {({ schedules }) => {
        const rows = schedules.filter((one) => one.schedule_id !== schedule.schedule_id);
        if (rows.length === 0) return <p>The profile has no other schedule.</p>;
        return (
          <label>
            Compare with
            <select value="" onChange={(event) => go(`compare/${schedule.schedule_id}/${event.currentTarget.value}`)}>
              <option value="" disabled>
                choose one
              </option>
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
  const { schedule, profile, replay } = opened;
  if (part === 'recomputation') return <RecomputationPart replay={replay} profile={profile.profile} />;
  if (part === 'operations') return <OperationsPart replay={replay} />;
  if (part === 'measurements') return <MeasurementsPart schedule={schedule} />;
  if (part === 'compare') return <ComparePart schedule={schedule} />;
  return <TimelinePart replay={replay} route={route} />;
}

export function ScheduleView({ route }: ViewProps): VNode {
  const id = route.path[1] ?? '';
  const part = PARTS.includes(route.path[2] ?? '') ? (route.path[2] ?? '') : 'timeline';
  const opened = useLoad((signal) => openSchedule(id, signal), [id]);
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
          <Candidates schedule={data.schedule} />
          <p class="actions downloads">
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
          </p>
          <Tabs label="Parts of the schedule" path={`schedule/${id}`} parts={PARTS} now={part} />
          <Part key={part} part={part} opened={data} route={route} />
        </>
      )}
    </Show>
  );
}
