/** A solve: how far it is, live; cancelling it. */

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { cancelJob, Problem, watchJob } from './api';
import { bytes, count, percent, seconds } from './format';
import type { ViewProps } from './main';
import { goInstead, href } from './route';
import type { Job } from './types';
import { Facts, Id, Name, ProblemBox, Retry, Title } from './ui';

export function isOver(job: Job): boolean {
  return job.state !== 'queued' && job.state !== 'running';
}

/** Its state in a word: that nothing fits is no failure. Jobs of older stores say so by their problem alone. */
export function stateOf(job: Job): string {
  return job.problem?.type === '/problems/infeasible-budget' ? 'infeasible' : job.state;
}

/** "50%", or bytes; a trade-off has none. */
export function budgetOf({ budget, kind }: Job): string {
  if (budget === undefined) return kind === 'tradeoff' ? 'all budgets' : '';
  return typeof budget === 'number' ? bytes(budget) : budget;
}

/** The profile that a job is of, as a link. */
export function JobProfile({ job }: { job: Job }): VNode | null {
  if (!job.profile_id) return null;
  return (
    <a href={href(`profile/${job.profile_id}`)}>
      {job.profile_name ? <Name text={job.profile_name} /> : <Id id={job.profile_id} />}
    </a>
  );
}

function askedFacts(job: Job): [string, ComponentChildren][] {
  const facts: [string, ComponentChildren][] = [];
  if (job.profile_id) facts.push(['profile', <JobProfile job={job} />]);
  if (budgetOf(job)) facts.push(['budget', <bdi>{budgetOf(job)}</bdi>]);
  if (job.solver) facts.push(['solver', <bdi>{job.solver}</bdi>]);
  if (job.asked_by) facts.push(['asked by', <Name text={job.asked_by} />]);
  if (job.asked && job.asked > 1) facts.push(['asked', `${count(job.asked)} times`]);
  return facts;
}

function useJob(id: string): { job?: Job; problem?: unknown; retry: () => void } {
  const [tries, setTries] = useState(0);
  const [state, setState] = useState<{ job?: Job; problem?: unknown }>({});
  useEffect(() => {
    const abort = new AbortController();
    const follow = async () => {
      for await (const job of watchJob(id, abort.signal)) {
        setState({ job });
        if (job.state === 'done' && job.schedule_id) goInstead(`schedule/${job.schedule_id}`);
      }
    };
    follow().catch((problem: unknown) => !abort.signal.aborted && setState({ problem }));
    return () => abort.abort();
  }, [id, tries]);
  const retry = () => {
    setState({});
    setTries(tries + 1);
  };
  return { ...state, retry };
}

function Progress({ job, onProblem }: { job: Job; onProblem: (problem: unknown) => void }): VNode {
  const [cancelling, setCancelling] = useState(false);
  const cancel = () => {
    setCancelling(true);
    cancelJob(job.job_id).catch(onProblem);
  };
  return (
    <>
      <Facts
        list={[
          ['state', <span role="status">{stateOf(job)}</span>],
          ...askedFacts(job),
          ['elapsed', seconds(job.elapsed_seconds ?? 0)],
          ...(job.queue_position ? [['place in the queue', job.queue_position] as [string, number]] : []),
        ]}
      />
      {!isOver(job) && (
        <p class="actions">
          <progress max={1} value={job.progress} aria-label="Progress of the solve" /> {percent(job.progress)}
          <button type="button" disabled={cancelling} onClick={cancel}>
            {cancelling ? 'Cancelling…' : 'Cancel the solve'}
          </button>
        </p>
      )}
      {job.problem && <ProblemBox problem={new Problem(job.problem)} />}
    </>
  );
}

export function JobView({ route }: ViewProps): VNode {
  const id = route.path[1] ?? '';
  const profile = route.query.get('profile');
  const { job, problem, retry } = useJob(id);
  const [failure, setFailure] = useState<unknown>();
  return (
    <>
      {profile && (
        <p class="crumbs">
          <a href={href('profiles')}>Profiles</a> / <a href={href(`profile/${profile}/ask`)}>the profile</a>
        </p>
      )}
      <Title plain="Solve">
        Solve <Id id={id} />
      </Title>
      {job && <Progress job={job} onProblem={setFailure} />}
      {!job && problem === undefined && <p class="quiet">Loading…</p>}
      {problem !== undefined && <Retry problem={problem} retry={retry} />}
      {failure !== undefined && <ProblemBox problem={failure} />}
    </>
  );
}
