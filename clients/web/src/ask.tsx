/** Asking for a schedule: budget, solver, link, options. */

import type { VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { askSchedule, askTradeoff, type Effort, get, Problem, type Question } from './api';
import { CURVE_NODES } from './curve';
import { bytes, percent, time } from './format';
import { go, note, type Route, readRoute } from './route';
import { unfit } from './solvers';
import type { Point, SolverOption, Solvers, StoredProfile } from './types';
import { ProblemBox, Show, useLoad } from './ui';

const STEPS = 1000;

/** Solvers whose answers are improved: the only ones that take an effort. */
const IMPROVED = ['auto', 'interval', 'selective'];

type Options = Record<string, unknown>;

/* ---- the parts of the form ---- */

function OptionField({
  option,
  value,
  onValue,
}: {
  option: SolverOption;
  value: unknown;
  onValue: (value: unknown) => void;
}): VNode {
  const label = `${option.name}: ${option.summary}`;
  if (option.type === 'boolean')
    return (
      <label class="check">
        <input type="checkbox" checked={value === true} onChange={(event) => onValue(event.currentTarget.checked)} />{' '}
        {label}
      </label>
    );
  if (option.type === 'choice')
    return (
      <label>
        {label}
        <select value={String(value)} onChange={(event) => onValue(event.currentTarget.value)}>
          {option.choices?.map((choice) => (
            <option value={choice}>{choice}</option>
          ))}
        </select>
      </label>
    );
  return (
    <label>
      {label}
      <input
        type="number"
        required
        min={option.minimum}
        max={option.maximum}
        step={option.type === 'integer' ? 1 : 'any'}
        value={String(value)}
        onInput={(event) => onValue(event.currentTarget.valueAsNumber)}
      />
    </label>
  );
}

function LinkField({
  solvers,
  link,
  onLink,
}: {
  solvers: Solvers;
  link: string;
  onLink: (link: string) => void;
}): VNode {
  const preset = link === '' || solvers.links.some((one) => one.preset === link);
  return (
    <div class="pair">
      <label>
        Way to the host
        <select
          value={preset ? link : 'own'}
          onChange={(event) => onLink(event.currentTarget.value === 'own' ? '12GB/s' : event.currentTarget.value)}
        >
          <option value="">none: no offloading</option>
          {solvers.links.map((one) => (
            <option value={one.preset}>
              {one.preset} ({(one.bytes_per_second / 1e9).toFixed(1)} GB/s)
            </option>
          ))}
          <option value="own">another bandwidth</option>
        </select>
      </label>
      {!preset && (
        <label>
          Bandwidth
          <input value={link} required onInput={(event) => onLink(event.currentTarget.value)} />
        </label>
      )}
    </div>
  );
}

function linkOf(link: string, solvers: Solvers): Record<string, unknown> | undefined {
  if (link === '') return undefined;
  return solvers.links.some((one) => one.preset === link) ? { preset: link } : { bandwidth: link };
}

/* ---- the budget ---- */

/** Bytes of a budget as it is written; undefined when only the service can read it. */
function bytesOf(text: string, most: number): number | undefined {
  const found = /^\s*([\d.]+)\s*(%|B|[KMGT]i?B)?\s*$/.exec(text);
  if (!found) return undefined;
  const value = Number(found[1]);
  const unit = found[2] ?? 'B';
  if (unit === '%') return (most * value) / 100;
  const power = 'BKMGT'.indexOf(unit[0] ?? 'B');
  return value * (unit.includes('i') ? 1024 : 1000) ** power;
}

interface BudgetProps {
  profile: StoredProfile;
  budget: string;
  least: number;
  points: Point[];
  onBudget: (budget: string) => void;
}

/** What the frontier says of a budget. */
function Prediction({
  profile,
  points,
  value,
}: {
  profile: StoredProfile;
  points: Point[];
  value: number;
}): VNode | null {
  const fit = points.filter((point) => point.feasible && (point.peak ?? 0) <= value).pop();
  if (points.length === 0) return null;
  if (!fit) return <p class="quiet">No schedule of the frontier fits in it.</p>;
  return (
    <p class="quiet">
      about {time(fit.makespan ?? 0, profile.time_unit)}, {percent(fit.overhead ?? 0)} over storing everything (
      {fit.solver})
    </p>
  );
}

function Budget({ profile, budget, least, points, onBudget }: BudgetProps): VNode {
  const most = profile.store_all.peak;
  const value = bytesOf(budget, most);
  const [inPercent, setInPercent] = useState(budget.includes('%'));
  const write = (amount: number, asPercent: boolean) =>
    /* rounded up, so that the least budget stays enough */
    onBudget(asPercent ? `${Math.ceil((10000 * amount) / most) / 100}%` : String(Math.ceil(amount)));
  const slid = (step: number) => write(least + ((most - least) * step) / STEPS, inPercent);
  const at = value === undefined || most <= least ? STEPS : Math.round(((value - least) / (most - least)) * STEPS);
  return (
    <fieldset>
      <legend>Budget</legend>
      <div class="pair">
        <label>
          Bytes, “4GiB”, or “60%”
          <input value={budget} required onInput={(event) => onBudget(event.currentTarget.value)} />
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={inPercent}
            onChange={(event) => {
              setInPercent(event.currentTarget.checked);
              if (value !== undefined) write(value, event.currentTarget.checked);
            }}
          />{' '}
          in percent of storing everything
        </label>
      </div>
      <label>
        From the least budget, {bytes(least)}, to storing everything, {bytes(most)}
        <input
          type="range"
          min={0}
          max={STEPS}
          value={Math.max(0, Math.min(STEPS, at))}
          aria-valuetext={value === undefined ? budget : `${bytes(Math.round(value))}, ${percent(value / most)}`}
          onInput={(event) => slid(event.currentTarget.valueAsNumber)}
        />
      </label>
      {value !== undefined && (
        <p>
          {bytes(Math.round(value))}, {percent(value / most)} of storing everything
        </p>
      )}
      {value !== undefined && <Prediction profile={profile} points={points} value={value} />}
    </fieldset>
  );
}

/* ---- the frontier under the slider ---- */

interface Frontier {
  points: Point[];
  asked: boolean;
  problem?: unknown;
}

function useFrontier(question: Question | undefined, key: string): Frontier {
  const [frontier, setFrontier] = useState<Frontier>({ points: [], asked: false });
  useEffect(() => {
    setFrontier({ points: [], asked: question !== undefined });
    if (!question) return;
    const abort = new AbortController();
    askTradeoff({ ...question, points: 100 }, abort.signal).then(
      (points) => setFrontier({ points, asked: false }),
      (problem: unknown) => !abort.signal.aborted && setFrontier({ points: [], asked: false, problem }),
    );
    return () => abort.abort();
  }, [key]);
  return frontier;
}

function leastOf(profile: StoredProfile, solver: string, points: Point[]): number {
  const first = points.find((point) => point.feasible);
  if (first) return first.budget;
  const known = profile.minimum_budgets
    .filter((one) => solver === 'auto' || one.solver === solver)
    .map((one) => one.bytes);
  return known.length > 0 ? Math.min(...known) : 0;
}

/* ---- the form ---- */

interface Refusal {
  problem: unknown;
  least?: number | undefined;
}

function Form({ profile, solvers, route }: { profile: StoredProfile; solvers: Solvers; route: Route }): VNode {
  const [solverName, setSolver] = useState(route.query.get('solver') ?? 'auto');
  const [effort, setEffort] = useState<Effort>(route.query.get('effort') === 'thorough' ? 'thorough' : 'quick');
  const [budget, setBudget] = useState(route.query.get('budget') ?? '50%');
  const [link, setLink] = useState(route.query.get('link') ?? '');
  const [layout, setLayout] = useState(route.query.get('layout') !== 'no');
  const [options, setOptions] = useState<Options>({});
  const [wantFrontier, setWantFrontier] = useState(profile.nodes <= CURVE_NODES);
  const [refusal, setRefusal] = useState<Refusal>();
  const [asking, setAsking] = useState(false);
  const solver = solvers.solvers.find((one) => one.name === solverName);
  const improved = IMPROVED.includes(solverName);
  const own = Object.fromEntries(
    Object.entries(options).filter(([name]) => solver?.options.some((one) => one.name === name)),
  );
  const way = linkOf(link, solvers);
  const question: Question = {
    profile_id: profile.profile_id,
    solver: solverName,
    ...(Object.keys(own).length > 0 && { options: own }),
    ...(way && { link: way }),
  };
  const unfitting = solver ? unfit(solver, profile, link !== '') : '';
  const pebbles = own['model'] === 'pebble';
  const complete = wantFrontier && !unfitting && !pebbles && (way === undefined || 'preset' in way);
  const frontier = useFrontier(complete ? question : undefined, JSON.stringify([complete, question]));
  const least = leastOf(profile, solverName, frontier.points);

  const ask = async (amount: string, laidOut: boolean) => {
    setAsking(true);
    setRefusal(undefined);
    try {
      const wanted = /^\d+$/.test(amount.trim()) ? Number(amount) : amount.trim();
      const answer = await askSchedule({
        ...question,
        budget: wanted,
        ...(!laidOut && { layout: false }),
        ...(improved && { effort }),
      });
      if ('schedule' in answer) go(`schedule/${answer.schedule.schedule_id}`);
      else go(`job/${answer.job.job_id}`, { ...Object.fromEntries(readRoute(location.hash).query), profile: profile.profile_id });
    } catch (problem) {
      setAsking(false);
      setRefusal({ problem, least: problem instanceof Problem ? problem.body.minimum_budget : undefined });
    }
  };
  const noted =
    <T extends string>(name: string, set: (value: T) => void) =>
    (value: T) => {
      set(value);
      note({ [name]: value });
    };

  return (
    <form
      class="ask"
      onSubmit={(event) => {
        event.preventDefault();
        void ask(budget, layout);
      }}
    >
      <label>
        Solver
        <select value={solverName} onChange={(event) => noted('solver', setSolver)(event.currentTarget.value)}>
          <option value="auto">auto: the best of those that fit the profile</option>
          {solvers.solvers.map((one) => {
            const why = unfit(one, profile, true);
            return (
              <option value={one.name} disabled={why !== ''}>
                {one.name}
                {why && ` (${why})`}
              </option>
            );
          })}
        </select>
      </label>
      {improved && (
        <label>
          Effort
          <select
            value={effort}
            onChange={(event) => noted<Effort>('effort', setEffort)(event.currentTarget.value as Effort)}
          >
            <option value="quick">quick</option>
            <option value="thorough">thorough: searches longer for a faster schedule</option>
          </select>
        </label>
      )}
      {solver && (
        <p class="quiet">
          {solver.summary} {solver.source}
        </p>
      )}
      {unfitting && (
        <p class="warning">
          {solverName}: {unfitting}
        </p>
      )}
      <Budget
        profile={profile}
        budget={budget}
        least={least}
        points={frontier.points}
        onBudget={noted('budget', setBudget)}
      />
      {frontier.asked && <p class="quiet">The frontier is on its way…</p>}
      {frontier.problem !== undefined && <ProblemBox problem={frontier.problem} />}
      {!wantFrontier && (
        <p>
          <button type="button" onClick={() => setWantFrontier(true)}>
            Find the frontier of these {profile.nodes} nodes
          </button>
        </p>
      )}
      {profile.time_unit !== 'units' && <LinkField solvers={solvers} link={link} onLink={noted('link', setLink)} />}
      {solver && solver.options.length > 0 && (
        <fieldset>
          <legend>Options of {solver.name}</legend>
          {solver.options.map((option) => (
            <OptionField
              key={solver.name + option.name}
              option={option}
              value={options[option.name] ?? option.default}
              onValue={(value) => setOptions({ ...options, [option.name]: value })}
            />
          ))}
        </fieldset>
      )}
      <label class="check">
        <input type="checkbox" checked={layout} onChange={(event) => setLayout(event.currentTarget.checked)} /> give
        every value an address in one arena within the budget
      </label>
      <p class="actions">
        <button type="submit" class="primary" disabled={asking}>
          {asking ? 'Asking…' : 'Ask'}
        </button>
      </p>
      {refusal && (
        <ProblemBox problem={refusal.problem}>
          {refusal.least !== undefined && refusal.least > 0 && (
            <p>
              <button
                type="button"
                onClick={() => {
                  noted('budget', setBudget)(String(refusal.least));
                  void ask(String(refusal.least), layout);
                }}
              >
                Ask for {pebbles ? `${refusal.least} slots` : bytes(refusal.least)} instead
              </button>
            </p>
          )}
        </ProblemBox>
      )}
    </form>
  );
}

export function Ask({ profile, route }: { profile: StoredProfile; route: Route }): VNode {
  const solvers = useLoad((signal) => get<Solvers>('/v1/solvers', signal), []);
  return <Show of={solvers}>{(data) => <Form profile={profile} solvers={data} route={route} />}</Show>;
}
