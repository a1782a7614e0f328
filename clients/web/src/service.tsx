/** The service: what it does now, what it did, what it holds. */

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { cancelJob, get, request } from './api';
import { bytes, count, percent, seconds, when } from './format';
import { budgetOf, isOver, JobProfile } from './job';
import { href } from './route';
import { readMetrics, type Sample } from './metrics';
import type { Job } from './types';
import { Facts, Id, Name, Scroll, Show, Table, Title, useLoad, type Column } from './ui';

const REFRESH = 2000;

interface State {
  samples: Sample[];
  jobs: Job[];
  ready: { ready: boolean; reasons: string[] };
}

async function fetchState(signal: AbortSignal): Promise<State> {
  const [metrics, jobs, ready] = await Promise.all([
    request('GET', '/metrics', { accept: 'text/plain', signal }).then((response) => response.text()),
    get<{ jobs: Job[] }>('/v1/jobs', signal),
    get<State['ready']>('/readyz', signal),
  ]);
  return { samples: readMetrics(metrics), jobs: jobs.jobs, ready };
}

function useTicks(): number {
  const [ticks, setTicks] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setTicks((n) => n + 1), REFRESH);
    return () => clearInterval(timer);
  }, []);
  return ticks;
}

/* ---- parts ---- */

function Now({ samples, ready }: State): VNode {
  const of = (name: string) => samples.find((sample) => sample.name === `remat_${name}`)?.value ?? 0;
  const version = samples.find((sample) => sample.name === 'remat_build_info')?.labels['version'] ?? 'unknown';
  return (
    <Facts
      list={[
        ['version', version],
        ['state', ready.ready ? 'ready' : ready.reasons.join(', ')],
        ['running since', `${seconds(Math.round(of('uptime_seconds')))} ago`],
        ['solves running', count(of('queue_running'))],
        ['solves waiting', count(of('queue_waiting'))],
        ['connections', count(of('connections'))],
        ['profiles', count(of('store_profiles'))],
        ['schedules', count(of('store_schedules'))],
        ['tables', `${count(of('store_tables'))}, ${bytes(of('store_table_bytes'))}`],
        ['store', bytes(of('store_bytes'))],
        ['answers in memory', bytes(of('cache_answer_bytes'))],
        ['tables in memory', bytes(of('cache_table_bytes'))],
      ]}
    />
  );
}

/** Where schedules were answered from. */
function Cache({ samples }: { samples: Sample[] }): VNode {
  const answers = samples.filter((sample) => sample.name === 'remat_schedule_answers_total');
  const all = answers.reduce((sum, sample) => sum + sample.value, 0);
  const words: Record<string, string> = { hit: 'known answers', table: 'traced out of a stored table', miss: 'solved' };
  return (
    <Scroll label="Schedules answered">
      <table>
        <caption>Schedules answered since the start</caption>
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col" class="number">
              Answers
            </th>
            <th scope="col" class="number">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          {answers.map((sample) => (
            <tr>
              <td>{words[sample.labels['cache'] ?? ''] ?? sample.labels['cache']}</td>
              <td class="number">{count(sample.value)}</td>
              <td class="number">{all > 0 ? percent(sample.value / all) : '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

interface RouteRow {
  route: string;
  requests: number;
  failed: number;
  mean: number;
}

function routeRows(samples: Sample[]): RouteRow[] {
  const rows = new Map<string, RouteRow>();
  const sums = new Map(
    samples.filter((s) => s.name === 'remat_http_request_seconds_sum').map((s) => [s.labels['route'] ?? '', s.value]),
  );
  for (const { name, labels, value } of samples) {
    if (name !== 'remat_http_requests_total') continue;
    const route = labels['route'] ?? '';
    const row = rows.get(route) ?? { route, requests: 0, failed: 0, mean: 0 };
    row.requests += value;
    if (Number(labels['status']) >= 400) row.failed += value;
    row.mean = (sums.get(route) ?? 0) / row.requests;
    rows.set(route, row);
  }
  return [...rows.values()];
}

const routeColumns: Column<RouteRow>[] = [
  { title: 'Route', key: (row) => row.route, cell: (row) => <code>{row.route}</code> },
  { title: 'Requests', key: (row) => row.requests, cell: (row) => count(row.requests), numeric: true },
  { title: 'Refused or failed', key: (row) => row.failed, cell: (row) => count(row.failed), numeric: true },
  { title: 'Mean time', key: (row) => row.mean, cell: (row) => seconds(row.mean), numeric: true },
];

function jobColumns(onCancel: (id: string) => void): Column<Job>[] {
  return [
    {
      title: 'Job',
      cell: (job) => (
        <a href={href(`job/${job.job_id}`)}>
          <Id id={job.job_id} />
        </a>
      ),
    },
    {
      title: 'State',
      key: (job) => job.state,
      cell: (job) =>
        job.state === 'running' ? (
          <>
            <progress max={1} value={job.progress} aria-label="Progress" /> {percent(job.progress)}
          </>
        ) : (
          job.state
        ),
    },
    { title: 'Profile', key: (job) => job.profile_name ?? '', cell: (job) => <JobProfile job={job} /> },
    { title: 'Budget', key: (job) => job.budget ?? 0, cell: budgetOf, numeric: true },
    { title: 'Solver', key: (job) => job.solver, cell: (job) => <bdi>{job.solver}</bdi> },
    { title: 'Asked by', key: (job) => job.asked_by ?? '', cell: (job) => <Name text={job.asked_by ?? ''} /> },
    {
      title: 'Elapsed',
      key: (job) => job.elapsed_seconds ?? 0,
      cell: (job) => seconds(job.elapsed_seconds ?? 0),
      numeric: true,
    },
    { title: 'When', key: (job) => job.created, cell: (job) => when(job.created) },
    {
      title: 'Outcome',
      cell: (job) =>
        job.schedule_id ? (
          <a href={href(`schedule/${job.schedule_id}`)}>schedule</a>
        ) : job.problem ? (
          <bdi title={job.problem.detail}>
            {job.problem.minimum_budget ? `${bytes(job.problem.minimum_budget)} would do` : job.problem.title}
          </bdi>
        ) : isOver(job) ? (
          ''
        ) : (
          <button type="button" onClick={() => onCancel(job.job_id)}>
            Cancel
          </button>
        ),
    },
  ];
}

export function ServiceView(): VNode {
  const ticks = useTicks();
  const [changed, setChanged] = useState(0);
  const state = useLoad(fetchState, [ticks, changed]);
  const cancel = (id: string) => void cancelJob(id).finally(() => setChanged(changed + 1));
  return (
    <>
      <Title plain="Service">Service</Title>
      <Show of={state}>
        {(data) => (
          <>
            <Now {...data} />
            <h2>Jobs</h2>
            {data.jobs.length === 0 ? (
              <p class="quiet">None lately.</p>
            ) : (
              <Table
                caption="Jobs"
                columns={jobColumns(cancel)}
                rows={data.jobs}
                rowKey={(job) => job.job_id}
                pageSize={20}
              />
            )}
            <h2>Answers</h2>
            <Cache samples={data.samples} />
            <h2>Requests</h2>
            <Table
              caption="Requests by route"
              columns={routeColumns}
              rows={routeRows(data.samples)}
              rowKey={(row) => row.route}
            />
          </>
        )}
      </Show>
    </>
  );
}
