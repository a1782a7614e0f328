/** The schedules of a profile and what was measured under them. */

import type { VNode } from 'preact';
import { useState } from 'preact/hooks';

import { get, withQuery } from './api';
import { bytes, count, percent, time, when } from './format';
import { go, href } from './route';
import type { Measurement, ScheduleItem, StoredProfile } from './types';
import { Id, Name, Show, Table, useLoad, type Column } from './ui';

const FETCHED = 500;
/** Schedules whose measurements are fetched: one call each. */
const MEASURED = 20;

interface Fetched {
  schedules: ScheduleItem[];
  next: string | null;
}

interface Measured extends Measurement {
  schedule: ScheduleItem;
}

export function measurementColumns(unit: string, makespan: (row: Measurement) => number): Column<Measurement>[] {
  return [
    { title: 'Step time', key: (m) => m.step_time, cell: (m) => time(m.step_time, unit), numeric: true },
    {
      title: 'Of predicted',
      key: (m) => m.step_time / makespan(m),
      cell: (m) => percent(m.step_time / makespan(m)),
      numeric: true,
    },
    { title: 'Steps', key: (m) => m.steps, cell: (m) => count(m.steps), numeric: true },
    { title: 'Peak', key: (m) => m.peak ?? 0, cell: (m) => (m.peak === null ? '–' : bytes(m.peak)), numeric: true },
    { title: 'Device', key: (m) => m.device ?? '', cell: (m) => <Name text={m.device ?? ''} /> },
    { title: 'Note', key: (m) => m.note ?? '', cell: (m) => <Name text={m.note ?? ''} /> },
    { title: 'When', key: (m) => m.created, cell: (m) => when(m.created) },
  ];
}

async function fetchMeasured(schedules: ScheduleItem[], signal: AbortSignal): Promise<Measured[]> {
  const found: Measured[] = [];
  for (const schedule of schedules.slice(0, MEASURED)) {
    const page = await get<{ measurements: Measurement[] }>(
      `/v1/schedules/${schedule.schedule_id}/measurements`,
      signal,
    );
    found.push(...page.measurements.map((one) => ({ ...one, schedule })));
  }
  return found;
}

function Measurements({ schedules, unit }: { schedules: ScheduleItem[]; unit: string }): VNode {
  const measured = useLoad((signal) => fetchMeasured(schedules, signal), [schedules]);
  const columns: Column<Measured>[] = [
    {
      title: 'Schedule',
      cell: (m) => (
        <a href={href(`schedule/${m.schedule.schedule_id}`)}>
          <Id id={m.schedule.schedule_id} />
        </a>
      ),
    },
    ...(measurementColumns(unit, (m) => (m as Measured).schedule.makespan) as Column<Measured>[]),
  ];
  return (
    <section>
      <h2>Measurements</h2>
      <Show of={measured}>
        {(rows) =>
          rows.length === 0 ? (
            <p class="quiet">
              No training job has posted one for{' '}
              {schedules.length > MEASURED ? `the newest ${MEASURED} schedules` : 'these schedules'}.
            </p>
          ) : (
            <Table caption="Measurements" columns={columns} rows={rows} rowKey={(m) => m.id} />
          )
        }
      </Show>
    </section>
  );
}

function List({ rows, profile }: { rows: ScheduleItem[]; profile: StoredProfile }): VNode {
  const [chosen, setChosen] = useState<string[]>([]);
  const toggle = (id: string) =>
    setChosen(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen.slice(-1), id]);
  const unit = profile.time_unit;
  const columns: Column<ScheduleItem>[] = [
    {
      title: 'Schedule',
      cell: (s) => (
        <a href={href(`schedule/${s.schedule_id}`)}>
          <Id id={s.schedule_id} />
        </a>
      ),
    },
    {
      title: 'Solver',
      key: (s) => s.solver,
      cell: (s) => (s.requested_solver === s.solver ? s.solver : `${s.solver} (${s.requested_solver})`),
    },
    { title: 'Budget', key: (s) => s.budget, cell: (s) => bytes(s.budget), numeric: true },
    { title: 'Peak', key: (s) => s.peak, cell: (s) => bytes(s.peak), numeric: true },
    { title: 'Makespan', key: (s) => s.makespan, cell: (s) => time(s.makespan, unit), numeric: true },
    { title: 'Overhead', key: (s) => s.overhead, cell: (s) => percent(s.overhead), numeric: true },
    { title: 'Solved', key: (s) => s.created, cell: (s) => when(s.created) },
    {
      title: 'Compare',
      cell: (s) => (
        <input
          type="checkbox"
          aria-label={`Compare schedule ${s.schedule_id.slice(0, 12)}`}
          checked={chosen.includes(s.schedule_id)}
          onChange={() => toggle(s.schedule_id)}
        />
      ),
    },
  ];
  return (
    <>
      <Table caption="Schedules of the profile" columns={columns} rows={rows} rowKey={(s) => s.schedule_id} />
      <p>
        <button type="button" disabled={chosen.length !== 2} onClick={() => go(`compare/${chosen.join('/')}`)}>
          Compare the two chosen
        </button>
      </p>
    </>
  );
}

export function ProfileSchedules({ profile }: { profile: StoredProfile }): VNode {
  const fetched = useLoad(
    (signal) => get<Fetched>(withQuery('/v1/schedules', { profile_id: profile.profile_id, limit: FETCHED }), signal),
    [profile.profile_id],
  );
  return (
    <Show of={fetched}>
      {({ schedules, next }) =>
        schedules.length === 0 ? (
          <p>
            None yet. <a href={href(`profile/${profile.profile_id}/ask`)}>Ask for one</a>
          </p>
        ) : (
          <>
            {next && <p class="quiet">The newest {count(FETCHED)}.</p>}
            <List rows={schedules} profile={profile} />
            <Measurements schedules={schedules} unit={profile.time_unit} />
          </>
        )
      }
    </Show>
  );
}
