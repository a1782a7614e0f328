/** What less memory costs: makespan against budget, by solver. */

import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';

import { askSchedule, askTradeoff, get, Problem } from './api';
import { axisBytes, Plot, xyAxes } from './plot';
import { bytes, count, percent, time } from './format';
import { go, href, note, type Route } from './route';
import { colour } from './theme';
import { unfit } from './solvers';
import type { Point, Solvers, StoredProfile } from './types';
import { Facts, Retry, Show, Table, useLoad, type Column } from './ui';

const POINTS = 60;
/** Larger profiles are asked for their curve only when somebody wants it. */
export const CURVE_NODES = 2000;
const INKS = ['series-1', 'series-2', 'series-3', 'series-4', 'series-5', 'series-6'];

interface Line {
  solver: string;
  /** Only those where there is a schedule. */
  points: Point[];
  progress?: number;
  problem?: unknown;
}

function useLines(profile: StoredProfile, solvers: string[]): { lines: Line[]; retry: (solver: string) => void } {
  const [lines, setLines] = useState<Record<string, Line>>({});
  const set = (line: Line) => setLines((before) => ({ ...before, [line.solver]: line }));
  const asked = useRef(new Map<string, AbortController>());
  const ask = (solver: string) => {
    const abort = new AbortController();
    asked.current.set(solver, abort);
    set({ solver, points: [] });
    const question = { profile_id: profile.profile_id, solver, points: POINTS };
    askTradeoff(question, abort.signal, (progress) => set({ solver, points: [], progress })).then(
      (points) => set({ solver, points: points.filter((point) => point.feasible) }),
      (problem: unknown) => !abort.signal.aborted && set({ solver, points: [], problem }),
    );
  };
  useEffect(() => solvers.filter((solver) => !asked.current.has(solver)).forEach(ask), [solvers.join()]);
  useEffect(() => () => asked.current.forEach((abort) => abort.abort()), []);
  return { lines: solvers.map((solver) => lines[solver] ?? { solver, points: [] }), retry: ask };
}

/** What is known to hold for every schedule within a budget: what holds within more holds within less. */
function boundOf(lines: Line[]): (budget: number) => number {
  const points = lines.flatMap((line) => line.points);
  return (budget) => points.reduce((most, p) => (p.budget >= budget ? Math.max(most, p.lower_bound ?? 0) : most), 0);
}

/* ---- the plot ---- */

interface Drawn {
  data: uPlot.AlignedData;
  /** After the budgets come the makespans of each, then the bound of them all. */
  solvers: string[];
  least: number;
}

/** Everything on one axis of budgets. */
function align(lines: Line[]): Drawn {
  const drawn = lines.filter((line) => line.points.length > 0);
  const budgets = [...new Set(drawn.flatMap((line) => line.points.map((point) => point.budget)))].sort((a, b) => a - b);
  const series = drawn.map((line) => {
    const there = new Map(line.points.map((point) => [point.budget, point.makespan]));
    return budgets.map((budget) => there.get(budget));
  });
  return {
    data: [budgets, ...series, budgets.map(boundOf(drawn))] as uPlot.AlignedData,
    solvers: drawn.map((line) => line.solver),
    least: budgets[0] ?? 0,
  };
}

/** Marks the least budget, the store-all point, and the budget of the slider. */
function marks(profile: StoredProfile, { least, solvers }: Drawn, chosen: { budget: number }): uPlot.Plugin {
  const whose = solvers.includes('auto') ? 'all solvers' : solvers.join(' and ');
  const proven = profile.floor !== undefined && least <= profile.floor ? ', proven' : '';
  const draw = (u: uPlot) => {
    const { ctx, bbox } = u;
    const { makespan, peak } = profile.store_all;
    ctx.save();
    ctx.fillStyle = colour('ink-2');
    ctx.strokeStyle = colour('ink-2');
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textBaseline = 'top';
    const upright = (budget: number, dash: number[]) => {
      const x = u.valToPos(budget, 'x', true);
      ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      return x;
    };
    ctx.textAlign = 'left';
    ctx.fillText(
      ` least of ${whose}: ${bytes(least)}${proven}`,
      upright(least, [4, 4]),
      bbox.top + bbox.height - 16 * devicePixelRatio,
    );
    ctx.strokeStyle = colour('budget');
    ctx.lineWidth = 2 * devicePixelRatio;
    upright(chosen.budget, []);
    const x = u.valToPos(peak, 'x', true);
    const y = u.valToPos(makespan, 'y', true);
    const r = 5 * devicePixelRatio;
    ctx.fillRect(x - r, y - r, 2 * r, 2 * r);
    ctx.textAlign = 'right';
    ctx.textBaseline = 'bottom';
    const words = 'storing everything';
    const left = u.posToVal(x - ctx.measureText(words).width, 'x', true);
    const from = Math.max(0, u.data[0].findIndex((budget) => budget >= left) - 1); // above the curve where a window is narrow
    const lines = u.data.slice(1) as (number | null | undefined)[][];
    const slowest = Math.max(makespan, ...lines.flatMap((line) => line.slice(from).map((value) => value ?? 0)));
    ctx.fillText(words, x + r, Math.min(y, u.valToPos(slowest, 'y', true)) - 2 * r);
    ctx.restore();
  };
  return { hooks: { draw } };
}

function CurvePlot({
  profile,
  drawn,
  budget,
  onPoint,
}: {
  profile: StoredProfile;
  drawn: Drawn;
  budget: number;
  onPoint: (solver: string, budget: number) => void;
}): VNode {
  const unit = profile.time_unit;
  const plot = useRef<uPlot | undefined>(undefined);
  const chosen = useRef({ budget }).current;
  chosen.budget = budget;
  useEffect(() => plot.current?.redraw(false), [budget]);
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  const line = {
    spanGaps: true,
    value: (_u: uPlot, makespan: number | null) => (makespan === null ? '–' : time(makespan, unit)),
    ...(stepped && { paths: stepped }),
  };
  const make = (): Omit<uPlot.Options, 'width' | 'height'> => ({
    scales: {
      x: { time: false, range: (_u, low, high) => [low * 0.97, Math.max(high, profile.store_all.peak) * 1.03] },
      y: { range: (_u, low, high) => [Math.min(low, profile.store_all.makespan) * 0.995, high * 1.01] },
    },
    axes: xyAxes(axisBytes, (value) => time(value, unit)),
    series: [
      { label: 'Budget', value: (_u, value) => (value === null ? '–' : bytes(value)) },
      ...drawn.solvers.map((solver, i) => ({
        ...line,
        label: solver,
        stroke: colour(INKS[i % INKS.length] ?? 'series-1'),
        width: 2,
        points: { show: true, size: 6 },
      })),
      {
        ...line,
        label: 'lower bound of all schedules',
        stroke: colour('ink-2'),
        dash: [4, 3],
        points: { show: false },
      },
    ],
    focus: { alpha: 0.35 },
    cursor: { focus: { prox: 24 }, drag: { x: true, y: false } },
    plugins: [marks(profile, drawn, chosen), clicks(drawn.solvers, onPoint)],
  });
  return (
    <Plot
      label="Makespan against budget. The table below has the same numbers."
      height={380}
      data={drawn.data}
      make={make}
      onReady={(made) => (plot.current = made)}
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
        .map((_s, s) => ({ value: u.data[s + 1]?.[i], s }))
        .filter(({ value }) => typeof value === 'number');
      const best =
        there.find(({ s }) => s + 1 === focused) ?? there.sort((a, b) => Number(a.value) - Number(b.value))[0];
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
  const rows: Row[] = lines.flatMap((line) => line.points.map((point) => ({ ...point, asked: line.solver })));
  const bound = boundOf(lines);
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
      key: (row) => bound(row.budget),
      cell: (row) => time(bound(row.budget), unit),
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

/* ---- the slider ---- */

/** A budget is chosen among those of a line, so that what is said of it is exact. */
function Slider({
  profile,
  line,
  at,
  onAt,
  onPoint,
}: {
  profile: StoredProfile;
  line: Line;
  at: number;
  onAt: (at: number) => void;
  onPoint: (solver: string, budget: number) => void;
}): VNode | null {
  const point = line.points[at];
  const shown = point?.budget;
  useEffect(() => {
    const timer = setTimeout(() => note({ budget: shown }), 200);
    return () => clearTimeout(timer);
  }, [shown]);
  if (!point) return null;
  const all = profile.store_all.peak;
  const overhead = percent(point.overhead ?? 0);
  return (
    <section class="slider" aria-label="A budget">
      <label>
        A budget from the least, {bytes(line.points[0]?.budget ?? 0)}, to storing everything, {bytes(all)}
        <input
          type="range"
          min={0}
          max={line.points.length - 1}
          value={at}
          aria-valuetext={`${bytes(point.budget)}, ${percent(point.budget / all)} of storing everything, ${overhead} slower`}
          onInput={(event) => onAt(event.currentTarget.valueAsNumber)}
        />
      </label>
      <div class="bar">
        <Facts
          list={[
            ['budget', `${bytes(point.budget)}, ${percent(point.budget / all)} of storing all`],
            ['overhead', overhead],
            ['peak', bytes(point.peak ?? 0)],
            ['makespan', time(point.makespan ?? 0, profile.time_unit)],
            ['solver', point.solver ?? line.solver],
          ]}
        />
        <span class="spring" />
        <button type="button" class="primary" onClick={() => onPoint(line.solver, point.budget)}>
          Open the schedule
        </button>
      </div>
    </section>
  );
}

/** The point of the budget in the address, or of half of storing everything: the last within it. */
function firstAt(points: Point[], budget: number): number {
  return Math.max(0, points.filter((point) => point.budget <= budget).length - 1);
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

/** How far the lines are that are not there yet. */
function Waiting({ lines, retry }: { lines: Line[]; retry: (solver: string) => void }): VNode {
  return (
    <>
      {lines.map(({ solver, points, problem, progress }) =>
        problem !== undefined ? (
          <Retry problem={problem} retry={() => retry(solver)} />
        ) : (
          points.length === 0 && (
            <p role="status" class="quiet">
              {solver}: on its way…{' '}
              {progress !== undefined && (
                <progress max={1} value={progress} aria-label={`Progress of the curve of ${solver}`} />
              )}
            </p>
          )
        ),
      )}
    </>
  );
}

function Curves({ profile, solvers, route }: { profile: StoredProfile; solvers: Solvers; route: Route }): VNode {
  const fit = solvers.solvers.filter((one) => unfit(one, profile, false) === '');
  const [chosen, setChosen] = useState((route.query.get('solvers') ?? 'auto').split(',').filter(Boolean));
  const [problem, setProblem] = useState<unknown>();
  const [moved, setMoved] = useState(-1);
  const { lines, retry } = useLines(profile, chosen);
  const drawn = useMemo(() => align(lines), [lines.map((line) => line.solver + line.points.length).join()]);
  const first = lines.find((line) => line.points.length > 0);
  const half = profile.store_all.peak / 2;
  const at = moved >= 0 ? moved : firstAt(first?.points ?? [], Number(route.query.get('budget') ?? half));
  const choose = (next: string[]) => {
    setChosen(next);
    setMoved(-1);
    note({ solvers: next.join(',') });
  };
  const onPoint = (solver: string, budget: number) => {
    setProblem(undefined);
    open(profile, solver, budget).catch(setProblem);
  };
  return (
    <>
      <Waiting lines={lines} retry={retry} />
      {first && <Slider profile={profile} line={first} at={at} onAt={setMoved} onPoint={onPoint} />}
      {problem !== undefined && <Retry problem={problem} retry={() => setProblem(undefined)} />}
      {first && <CurvePlot profile={profile} drawn={drawn} budget={first.points[at]?.budget ?? 0} onPoint={onPoint} />}
      <p class="quiet">
        A click opens the schedule there; dragging zooms, a double click shows all. The curve is that of the solvers
        before improvement: a schedule is at or below it. It counts peaks; addresses may need more where it begins.{' '}
        <a href={href(`profile/${profile.profile_id}/ask`)}>Ask with a link, options or another budget</a>
      </p>
      <Chooser solvers={['auto', ...fit.map((one) => one.name)]} chosen={chosen} onChange={choose} />
      {first && <CurveTable lines={lines} profile={profile} onPoint={onPoint} />}
    </>
  );
}

export function Curve({ profile, route }: { profile: StoredProfile; route: Route }): VNode {
  const solvers = useLoad((signal) => get<Solvers>('/v1/solvers', signal), []);
  const [wanted, setWanted] = useState(profile.nodes <= CURVE_NODES);
  if (!wanted)
    return (
      <p>
        <button type="button" onClick={() => setWanted(true)}>
          Find the curve of these {count(profile.nodes)} nodes
        </button>
      </p>
    );
  return <Show of={solvers}>{(data) => <Curves profile={profile} solvers={data} route={route} />}</Show>;
}
