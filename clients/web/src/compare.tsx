/** Two schedules beside each other. */

import type { VNode } from 'preact';
import { useMemo } from 'preact/hooks';
import type uPlot from 'uplot';

import { Canvas } from './canvas';
import { amount, count, percent, time } from './format';
import type { ViewProps } from './main';
import { axisBytes, Plot, xyAxes } from './plot';
import { memoryCorners, type Replay } from './replay';
import { href } from './route';
import { boundOfAll, claim, openSchedule, type Opened } from './schedule';
import { SpanView } from './span_view';
import { GUTTER, RIGHT } from './stretch';
import { drawStreams, lanesOf, streamsHeight } from './streams';
import { colour } from './theme';
import { Id, Name, Scroll, Show, Table, Title, useLoad, type Column } from './ui';

/* ---- numbers ---- */

function difference(a: number, b: number): string {
  return a === 0 ? '' : `${b >= a ? '+' : '−'}${percent(Math.abs(b / a - 1))}`;
}

function Numbers({ a, b }: { a: Opened; b: Opened }): VNode {
  const unit = a.schedule.time_unit;
  const bytes = (value: number) => amount(value, a.replay.pebbles);
  const rows: [string, (one: Opened) => number, (value: number) => string][] = [
    ['budget', (one) => one.schedule.budget, bytes],
    ['peak', (one) => one.schedule.peak, bytes],
    ['arena', (one) => one.schedule.arena ?? 0, bytes],
    ['makespan', (one) => one.schedule.makespan, (value) => time(value, unit)],
    ['recomputed', (one) => one.schedule.recomputed_time, (value) => time(value, unit)],
    ['lower bound, all schedules', (one) => boundOfAll(one.schedule), (value) => time(value, unit)],
    ['operations', (one) => one.replay.n, count],
  ];
  return (
    <Scroll label="The two schedules">
      <table class="compare">
        <caption class="hidden">The two schedules</caption>
        <thead>
          <tr>
            <td />
            {[a, b].map((one, i) => (
              <th scope="col" class="number">
                <a href={href(`schedule/${one.schedule.schedule_id}`)}>
                  {'AB'[i]}: {one.schedule.solver} <Id id={one.schedule.schedule_id} />
                </a>
              </th>
            ))}
            <th scope="col" class="number">
              B to A
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, value, show]) => (
            <tr>
              <th scope="row">{name}</th>
              <td class="number">{show(value(a))}</td>
              <td class="number">{show(value(b))}</td>
              <td class="number">{difference(value(a), value(b))}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">claim</th>
            <td class="number">{claim(a.schedule)}</td>
            <td class="number">{claim(b.schedule)}</td>
            <td />
          </tr>
        </tbody>
      </table>
    </Scroll>
  );
}

/* ---- memory of both ---- */

/** Both curves on one list of times; undefined where only the other one has a corner. */
function together(a: Replay, b: Replay): uPlot.AlignedData {
  const corners = [a, b].map((one) => memoryCorners(one, one.clock));
  const all = corners.flatMap(([xs, ys], s) => Array.from(xs, (x, i) => ({ x, y: ys[i] ?? 0, s, i })));
  all.sort((p, q) => p.x - q.x || p.s - q.s || p.i - q.i);
  const column = (s: number) => all.map((corner) => (corner.s === s ? corner.y : undefined));
  return [all.map((corner) => corner.x), column(0), column(1)] as uPlot.AlignedData;
}

function BothMemories({ a, b }: { a: Replay; b: Replay }): VNode {
  const data = useMemo(() => together(a, b), [a, b]);
  const end = Math.max(a.makespan, b.makespan);
  const make = (): Omit<uPlot.Options, 'width' | 'height'> => {
    const [x, y] = xyAxes((value) => time(value, a.timeUnit), a.pebbles ? (value) => amount(value, true) : axisBytes);
    const line = (label: string, ink: string): uPlot.Series => ({
      label,
      stroke: colour(ink),
      width: 1.4,
      spanGaps: true,
      points: { show: false },
      value: (_u, value) => (typeof value === 'number' ? amount(value, a.pebbles) : ''),
    });
    return {
      scales: {
        x: { time: false, range: (_u, low, high) => [low, Math.min(high, end)] },
        y: { range: (_u, _low, high) => [0, high * 1.08] },
      },
      axes: [x ?? {}, { ...y, size: GUTTER }],
      padding: [8, RIGHT, 0, 0],
      series: [
        { label: 'time', value: (_u, value) => (typeof value === 'number' ? time(value, a.timeUnit) : '') },
        line('A', 'series-1'),
        line('B', 'series-2'),
      ],
    };
  };
  return <Plot label="Memory of both schedules over time" height={300} data={data} make={make} />;
}

function Streams({ label, replay, until }: { label: string; replay: Replay; until: number }): VNode {
  const lanes = useMemo(() => lanesOf(replay), [replay]);
  const view = useMemo(() => new SpanView(replay, 'time', -1, until), [replay]);
  return (
    <>
      <h3>{label}</h3>
      <Canvas
        name="draw-streams"
        label={`Streams of schedule ${label}`}
        height={streamsHeight(lanes)}
        draw={(context, width, height) => drawStreams(context, width, height, lanes, replay, view)}
        onReady={() => undefined}
      />
    </>
  );
}

/* ---- what each recomputes ---- */

interface Row {
  index: number;
  id: string;
  a: number;
  b: number;
}

function Recomputation({ a, b }: { a: Opened; b: Opened }): VNode {
  const unit = a.schedule.time_unit;
  const rows = a.profile.profile.nodes
    .map((node, index) => ({
      index,
      id: node.id,
      a: a.replay.recomputed[index] ?? 0,
      b: b.replay.recomputed[index] ?? 0,
    }))
    .filter((row) => Math.abs(row.a - row.b) > 1e-9 * Math.max(row.a, row.b));
  if (rows.length === 0) return <p>Both recompute the same.</p>;
  const columns: Column<Row>[] = [
    { title: '#', key: (row) => row.index, cell: (row) => row.index, numeric: true },
    { title: 'Node', key: (row) => row.id, cell: (row) => <Name text={row.id} /> },
    { title: 'Recompute in A', key: (row) => row.a, cell: (row) => time(row.a, unit), numeric: true },
    { title: 'Recompute in B', key: (row) => row.b, cell: (row) => time(row.b, unit), numeric: true },
    { title: 'B − A', key: (row) => row.b - row.a, cell: (row) => time(row.b - row.a, unit), numeric: true },
  ];
  return (
    <Table
      caption="Nodes that only one recomputes, or one more often"
      columns={columns}
      rows={rows}
      rowKey={(row) => row.index}
      pageSize={20}
    />
  );
}

export function CompareView({ route }: ViewProps): VNode {
  const [first = '', second = ''] = route.path.slice(1);
  const both = useLoad(
    (signal) => Promise.all([openSchedule(first, signal), openSchedule(second, signal)]),
    [first, second],
  );
  return (
    <Show of={both}>
      {([a, b]) => (
        <>
          <p class="crumbs">
            <a href={href('profiles')}>Profiles</a> /{' '}
            <a href={href(`profile/${a.profile.profile_id}/schedules`)}>
              <Name text={a.profile.name} />
            </a>
          </p>
          <Title plain="Two schedules">Two schedules</Title>
          {a.profile.profile_id !== b.profile.profile_id && (
            <p class="warning">
              They are of two profiles; B is of <Name text={b.profile.name} />.
            </p>
          )}
          <Numbers a={a} b={b} />
          <h2>Memory</h2>
          <BothMemories a={a.replay} b={b.replay} />
          <h2>Streams</h2>
          <Streams label="A" replay={a.replay} until={Math.max(a.replay.makespan, b.replay.makespan)} />
          <Streams label="B" replay={b.replay} until={Math.max(a.replay.makespan, b.replay.makespan)} />
          {a.profile.profile_id === b.profile.profile_id && !a.replay.pebbles && (
            <>
              <h2>Recomputation</h2>
              <Recomputation a={a} b={b} />
            </>
          )}
        </>
      )}
    </Show>
  );
}
