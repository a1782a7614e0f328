/** What goes over the wire, as /openapi.json describes it; only what the page reads. */

export type Kind = 'chain' | 'join' | 'graph';

export interface ProfileItem {
  profile_id: string;
  name: string;
  kind: Kind;
  nodes: number;
  edges: number;
  created: string;
  last_used: string;
  schedules: number;
}

export interface Node {
  id: string;
  op?: string;
  inputs?: string[];
  forward_time: number;
  backward_time?: number;
  output_bytes: number;
  saved_bytes?: number;
  gradient_bytes?: number;
  forward_workspace_bytes?: number;
  backward_workspace_bytes?: number;
}

/** A node of a joint graph, as it comes. */
export interface JointNode {
  id: string;
  op?: string;
  inputs?: string[];
  time: number;
  output_bytes?: number;
  outputs?: { bytes: number }[];
  workspace_bytes?: number;
}

export interface Profile {
  name: string;
  graph?: 'forward' | 'joint';
  source?: Record<string, unknown>;
  time_unit?: string;
  inputs?: { id: string; bytes: number }[];
  states?: { id: string; bytes: number }[];
  nodes: Node[];
}

export interface StoredProfile {
  profile_id: string;
  name: string;
  graph?: 'joint';
  kind: Kind;
  nodes: number;
  edges: number;
  /** All that it was given, where it has several. */
  names?: string[];
  homogeneous: boolean;
  time_unit: string;
  store_all: { makespan: number; peak: number };
  minimum_budgets: { solver: string; bytes: number }[];
  /** Below it no schedule fits. */
  floor?: number;
  profile: Profile;
}

export type Operation = (string | number)[];

/** Operation that makes it, kind, index, offset in the arena. */
export type Allocation = [number, string, number, number];

export interface Schedule {
  schedule_id: string;
  profile_id: string;
  solver: string;
  requested_solver: string;
  budget: number;
  time_unit: string;
  makespan: number;
  store_all_makespan: number;
  overhead: number;
  peak: number;
  store_all_peak: number;
  recomputed_time: number;
  optimality: string;
  class: string;
  bound_class?: string;
  lower_bound: number;
  gap: number;
  operations: Operation[];
  cut_short?: true;
  solve_seconds: number;
  created: string;
  candidates?: { solver: string; feasible: boolean; makespan?: number; peak?: number; minimum_budget?: number }[];
  arena?: number;
  in_flight?: number;
  held?: number;
  allocations?: Allocation[];
  link?: Record<string, unknown>;
  model?: 'pebble';
}

export interface ScheduleItem {
  schedule_id: string;
  profile_id: string;
  solver: string;
  requested_solver: string;
  budget: number;
  peak: number;
  makespan: number;
  overhead: number;
  created: string;
}

export interface Explanation {
  text: string;
  sentences: { topic: string; text: string }[];
}

/** Kind, index, bytes, first and last operation of its life. */
export type Value = [string, number, number, number, number];

export interface Timeline {
  time_unit: string;
  budget: number;
  makespan: number;
  peak: number;
  peak_operation: number;
  nodes: string[];
  operations: Operation[];
  start: number[];
  end: number[];
  memory_during: number[];
  memory_after: number[];
  values?: Value[];
}

export interface Point {
  budget: number;
  feasible: boolean;
  makespan: number | null;
  overhead: number | null;
  peak: number | null;
  solver?: string;
  lower_bound?: number;
}

export interface SolverOption {
  name: string;
  summary: string;
  type: 'integer' | 'number' | 'boolean' | 'choice';
  minimum?: number;
  maximum?: number;
  default: unknown;
  choices?: string[];
}

export interface Solver {
  name: string;
  summary: string;
  source: string;
  optimal_for: string;
  accepts: (Kind | 'joint')[];
  homogeneous_only: boolean;
  needs_link: boolean;
  options: SolverOption[];
}

export interface Solvers {
  solvers: Solver[];
  links: { preset: string; summary: string; bytes_per_second: number }[];
}

export interface Job {
  job_id: string;
  state: 'queued' | 'running' | 'done' | 'failed' | 'cancelled' | 'infeasible';
  progress: number;
  /** So far, in the profile's unit. */
  best_makespan?: number;
  lower_bound?: number;
  elapsed_seconds?: number;
  queue_position?: number;
  created: string;
  schedule_id?: string;
  problem?: ProblemBody;
  kind: 'schedule' | 'tradeoff';
  profile_id: string;
  profile_name?: string;
  solver: string;
  /** Of a schedule. */
  budget?: number;
  /** Who asked first, and how many requests did. */
  asked_by?: string;
  asked?: number;
}

export interface Measurement {
  id: number;
  created: string;
  step_time: number;
  steps: number;
  peak: number | null;
  device: string | null;
  note: string | null;
}

export interface ProblemBody {
  type: string;
  title: string;
  status: number;
  detail?: string;
  field?: string;
  minimum_budget?: number;
}
