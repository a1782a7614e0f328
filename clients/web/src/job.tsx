/** A solve: how far it is, live; cancelling it. */

import type { VNode } from 'preact';
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

/** Bytes; a trade-off has none. Fewer than any profile has are slots of the pebble model. */
export function budgetOf({ budget }: Job): string {
  if (budget === undefined) return 'all budgets';
  return budget < 1000 ? count(budget) : bytes(budget);
}

/** The profile that a job is of, as a link. */
export function JobProfile({ job }: { job: Job }): VNode {
  return (
    <a href={href(`profile/${job.profile_id}`)}>
      {job.profile_name ? <Name text={job.profile_name} /> : <Id id={job.profile_id} />}
    </a>
  );
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

/** The least budget that a refusal names, as a link to the question that it refused. */
function Instead({ job, question }: { job: Job; question: URLSearchParams }): VNode | null {
  const least = job.problem?.minimum_budget;
  if (!least) return null;
  const again = { ...Object.fromEntries(question), profile: undefined, solver: job.solver, budget: least };
  return (
    <p>
      <a href={href(`profile/${job.profile_id}/ask`, again)}>Ask for {budgetOf({ ...job, budget: least })} instead</a>
    </p>
  );
}

interface ProgressProps {
  job: Job;
  question: URLSearchParams;
  onProblem: (problem: unknown) => void;
}

function Progress({ job, question, onProblem }: ProgressProps): VNode {
  const [cancelling, setCancelling] = useState(false);
  const cancel = () => {
    setCancelling(true);
    cancelJob(job.job_id).catch(onProblem);
  };
  return (
    <>
      <Facts
        list={[
          ['state', <span role="status">{job.state}</span>],
          ['profile', <JobProfile job={job} />],
          ['budget', budgetOf(job)],
          ['solver', <bdi>{job.solver}</bdi>],
          ...(job.asked_by ? [['asked by', <Name text={job.asked_by} />] as [string, VNode]] : []),
          ...(job.asked && job.asked > 1 ? [['asked', `${count(job.asked)} times`] as [string, string]] : []),
          ...(job.best_makespan && job.lower_bound
            ? [['best so far', `${percent(job.best_makespan / job.lower_bound - 1)} above the bound`] as [string, string]]
            : []),
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
      {job.problem && (
        <ProblemBox problem={new Problem(job.problem)}>
          <Instead job={job} question={question} />
        </ProblemBox>
      )}
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
      {job && <Progress job={job} question={route.query} onProblem={setFailure} />}
      {!job && problem === undefined && <p class="quiet">Loading…</p>}
      {problem !== undefined && <Retry problem={problem} retry={retry} />}
      {failure !== undefined && <ProblemBox problem={failure} />}
    </>
  );
}
