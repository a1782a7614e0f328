/** What less memory costs: makespan against budget, by solver. */

import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';

import { askSchedule, askTradeoff, get, Problem } from './api';
import { axisBytes, Plot, xyAxes } from './plot';
import { bytes, percent, time } from './format';
import { go, href, note, type Route } from './route';
import { colour } from './theme';
import type { Point, Solvers, StoredProfile } from './types';
import { ProblemBox, Show, Table, useLoad, type Column } from './ui';

const POINTS = 60;
const INKS = ['series-1', 'series-2', 'series-3', 'series-4', 'series-5', 'series-6'];

interface Line {
  solver: string;
  points: Point[];
  problem?: unknown;
}

function useLines(profile: StoredProfile, solvers: string[]): Line[] {
  const [lines, setLines] = useState<Record<string, Line>>({});
  const set = (line: Line) => setLines((before) => ({ ...before, [line.solver]: line }));
  const asked = useRef(new Map<string, AbortController>());
  useEffect(() => {
    for (const solver of solvers) {
      if (asked.current.has(solver)) continue;
      const abort = new AbortController();
      asked.current.set(solver, abort);
      set({ solver, points: [] });
      askTradeoff({ profile_id: profile.profile_id, solver, points: POINTS }, abort.signal).then(
        (points) => set({ solver, points }),
        (problem: unknown) => !abort.signal.aborted && set({ solver, points: [], problem }),
      );
    }
  }, [solvers.join()]);
  useEffect(() => () => asked.current.forEach((abort) => abort.abort()), []);
  return solvers.map((solver) => lines[solver] ?? { solver, points: [] });
}

/* ---- the plot ---- */

interface Drawn {
  data: uPlot.AlignedData;
  /** After x there are two series for each: its makespans and its lower bounds. */
  solvers: string[];
  least: number | undefined;
}

/** Everything on one axis of budgets. */
function align(lines: Line[]): Drawn {
  const drawn = lines.filter((line) => line.points.some((point) => point.feasible));
  const budgets = [...new Set(drawn.flatMap((line) => line.points.map((point) => point.budget)))].sort((a, b) => a - b);
  const series = drawn.flatMap((line) => {
    const there = new Map(line.points.map((point) => [point.budget, point]));
    return [
      budgets.map((budget) => there.get(budget)?.makespan),
      budgets.map((budget) => there.get(budget)?.lower_bound),
    ];
  });
  const feasible = drawn.flatMap((line) => line.points.filter((point) => point.feasible).map((point) => point.budget));
  return {
    data: [budgets, ...series] as uPlot.AlignedData,
    solvers: drawn.map((line) => line.solver),
    least: feasible.length > 0 ? Math.min(...feasible) : undefined,
  };
}

/** Marks the least budget and the store-all point. */
function marks(profile: StoredProfile, least: number | undefined): uPlot.Plugin {
  const draw = (u: uPlot) => {
    const { ctx, bbox } = u;
    const { makespan, peak } = profile.store_all;
    ctx.save();
    ctx.fillStyle = colour('ink-2');
    ctx.strokeStyle = colour('ink-2');
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = 'top';
    if (least !== undefined) {
      const x = u.valToPos(least, 'x', true);
      ctx.setLineDash([4, 4]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.textAlign = 'left';
      ctx.fillText(` least ${bytes(least)}`, x, bbox.top + bbox.height - 16 * devicePixelRatio);
    }
    const x = u.valToPos(peak, 'x', true);
    const y = u.valToPos(makespan, 'y', true);
    const r = 5 * devicePixelRatio;
    ctx.fillRect(x - r, y - r, 2 * r, 2 * r);
    ctx.textAlign = 'right';
    ctx.fillText('store-all', x + r, y - 4 * r);
    ctx.restore();
  };
  return { hooks: { draw } };
}

function CurvePlot({
  profile,
  drawn,
  onPoint,
}: {
  profile: StoredProfile;
  drawn: Drawn;
  onPoint: (solver: string, budget: number) => void;
}): VNode {
  const unit = profile.time_unit;
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  const make = (): Omit<uPlot.Options, 'width' | 'height'> => ({
    scales: {
      x: { time: false, range: (_u, low, high) => [low * 0.97, Math.max(high, profile.store_all.peak) * 1.03] },
      y: { range: (_u, low, high) => [Math.min(low, profile.store_all.makespan) * 0.995, high * 1.01] },
    },
    axes: xyAxes(axisBytes, (value) => time(value, unit)),
    series: [
      { label: 'Budget', value: (_u, value) => (value === null ? '–' : bytes(value)) },
      ...drawn.solvers.flatMap((solver, i) => {
        const stroke = colour(INKS[i % INKS.length] ?? 'series-1');
        const value = (_u: uPlot, makespan: number | null) => (makespan === null ? '–' : time(makespan, unit));
        const line = { stroke, spanGaps: true, value, ...(stepped && { paths: stepped }) };
        return [
          { ...line, label: solver, width: 2, points: { show: true, size: 6 } },
          { ...line, label: `bound, ${solver}`, width: 1, dash: [4, 3], points: { show: false } },
        ];
      }),
    ],
    focus: { alpha: 0.35 },
    cursor: { focus: { prox: 24 }, drag: { x: true, y: false } },
    plugins: [marks(profile, drawn.least), clicks(drawn.solvers, onPoint)],
  });
  return (
    <Plot
      label="Makespan against budget. The table below has the same numbers."
      height={380}
      data={drawn.data}
      make={make}
      key={drawn.solvers.join() + drawn.data[0].length}
    />
  );
}

/** A click opens the point under it: that of the solver in focus, else the lowest. */
function clicks(solvers: string[], onPoint: (solver: string, budget: number) => void): uPlot.Plugin {
  let focused = -1;
  const ready = (u: uPlot) => {
    let pressed = 0;
    u.over.addEventListener('mousedown', (event) => (pressed = event.clientX));
    u.over.addEventListener('click', (event) => {
      const i = u.cursor.idx;
      if (i === null || i === undefined || Math.abs(event.clientX - pressed) > 3) return;
      const there = solvers
        .map((_s, s) => ({ value: u.data[2 * s + 1]?.[i], s }))
        .filter(({ value }) => typeof value === 'number');
      const best =
        there.find(({ s }) => 2 * s + 1 === focused || 2 * s + 2 === focused) ??
        there.sort((a, b) => Number(a.value) - Number(b.value))[0];
      const budget = u.data[0][i];
      if (best && budget !== undefined) onPoint(solvers[best.s] ?? 'auto', budget);
    });
  };
  return {
    hooks: {
      ready,
      setSeries: (_u, series) => {
        focused = series ?? -1;
      },
    },
  };
}

/* ---- the table ---- */

interface Row extends Point {
  asked: string;
}

function CurveTable({
  lines,
  profile,
  onPoint,
}: {
  lines: Line[];
  profile: StoredProfile;
  onPoint: (solver: string, budget: number) => void;
}): VNode {
  const rows: Row[] = lines.flatMap((line) =>
    line.points.filter((point) => point.feasible).map((point) => ({ ...point, asked: line.solver })),
  );
  const unit = profile.time_unit;
  const columns: Column<Row>[] = [
    { title: 'Asked', key: (row) => row.asked, cell: (row) => row.asked },
    { title: 'Solver', key: (row) => row.solver ?? '', cell: (row) => row.solver },
    { title: 'Budget', key: (row) => row.budget, cell: (row) => bytes(row.budget), numeric: true },
    { title: 'Peak', key: (row) => row.peak ?? 0, cell: (row) => bytes(row.peak ?? 0), numeric: true },
    { title: 'Makespan', key: (row) => row.makespan ?? 0, cell: (row) => time(row.makespan ?? 0, unit), numeric: true },
    { title: 'Overhead', key: (row) => row.overhead ?? 0, cell: (row) => percent(row.overhead ?? 0), numeric: true },
    {
      title: 'Lower bound',
      key: (row) => row.lower_bound ?? 0,
      cell: (row) => time(row.lower_bound ?? 0, unit),
      numeric: true,
    },
    {
      title: 'Schedule',
      cell: (row) => (
        <button
          type="button"
          aria-label={`Open the schedule of ${row.asked} at ${bytes(row.budget)}`}
          onClick={() => onPoint(row.asked, row.budget)}
        >
          Open
        </button>
      ),
    },
  ];
  return (
    <Table
      caption="Points of the curve"
      columns={columns}
      rows={rows}
      rowKey={(row) => `${row.asked} ${row.budget}`}
      pageSize={20}
    />
  );
}

/* ---- the view ---- */

function Chooser({
  solvers,
  chosen,
  onChange,
}: {
  solvers: string[];
  chosen: string[];
  onChange: (chosen: string[]) => void;
}): VNode {
  return (
    <fieldset class="chooser">
      <legend>Solvers</legend>
      {solvers.map((solver) => (
        <label class="check">
          <input
            type="checkbox"
            checked={chosen.includes(solver)}
            onChange={() =>
              onChange(chosen.includes(solver) ? chosen.filter((one) => one !== solver) : [...chosen, solver])
            }
          />{' '}
          {solver}
        </label>
      ))}
    </fieldset>
  );
}

/** Opens the schedule of a point: at its budget with addresses, or without where only that fits. */
async function open(profile: StoredProfile, solver: string, budget: number): Promise<void> {
  const question = { profile_id: profile.profile_id, solver, budget };
  const answer = await askSchedule(question).catch((problem: unknown) => {
    if (problem instanceof Problem && problem.status === 422) return askSchedule({ ...question, layout: false });
    throw problem;
  });
  if ('schedule' in answer) go(`schedule/${answer.schedule.schedule_id}`);
  else go(`job/${answer.job.job_id}`, { profile: profile.profile_id });
}

function Curves({ profile, solvers, route }: { profile: StoredProfile; solvers: Solvers; route: Route }): VNode {
  const fit = solvers.solvers.filter(
    (one) => one.accepts.includes(profile.kind) && !one.needs_link && (!one.homogeneous_only || profile.homogeneous),
  );
  const [chosen, setChosen] = useState((route.query.get('solvers') ?? 'auto').split(',').filter(Boolean));
  const [problem, setProblem] = useState<unknown>();
  const lines = useLines(profile, chosen);
  const drawn = useMemo(() => align(lines), [lines.map((line) => line.solver + line.points.length).join()]);
  const choose = (next: string[]) => {
    setChosen(next);
    note({ solvers: next.join(',') });
  };
  const onPoint = (solver: string, budget: number) => {
    setProblem(undefined);
    open(profile, solver, budget).catch(setProblem);
  };
  return (
    <>
      <Chooser solvers={['auto', ...fit.map((one) => one.name)]} chosen={chosen} onChange={choose} />
      {lines.map((line) => (
        <>
          {line.problem !== undefined && (
            <ProblemBox problem={line.problem}>
              <p>{line.solver}</p>
            </ProblemBox>
          )}
          {line.points.length === 0 && line.problem === undefined && (
            <p role="status" class="quiet">
              {line.solver}: on its way…
            </p>
          )}
        </>
      ))}
      {drawn.solvers.length > 0 && <CurvePlot profile={profile} drawn={drawn} onPoint={onPoint} />}
      <p class="quiet">
        A click opens the schedule there; dragging zooms, a double click shows all.{' '}
        <a href={href(`profile/${profile.profile_id}/ask`)}>Ask for another budget</a>
      </p>
      {problem !== undefined && <ProblemBox problem={problem} />}
      {drawn.solvers.length > 0 && <CurveTable lines={lines} profile={profile} onPoint={onPoint} />}
    </>
  );
}

export function Curve({ profile, route }: { profile: StoredProfile; route: Route }): VNode {
  const solvers = useLoad((signal) => get<Solvers>('/v1/solvers', signal), []);
  return <Show of={solvers}>{(data) => <Curves profile={profile} solvers={data} route={route} />}</Show>;
}
