/** Calls to the service. A token, where one is needed, lives as long as the tab. */

import type { Job, JointNode, Node, Point, ProblemBody, Schedule, StoredProfile } from './types';

const TOKEN = 'remat-token';

/** An answer that is no success, as RFC 9457 has it. */
export class Problem extends Error {
  constructor(
    readonly body: ProblemBody,
    readonly retryAfter = 0,
  ) {
    super(body.detail ?? body.title);
  }

  get status(): number {
    return this.body.status;
  }
}

export interface Answer<T> {
  status: number;
  data: T;
}

const wanting = new Set<() => void>();

/** Calls listener whenever the service asks for another token than there is; returns how to stop. */
export function onTokenWanted(listener: () => void): () => void {
  wanting.add(listener);
  return () => wanting.delete(listener);
}

export function setToken(token: string): void {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export function hasToken(): boolean {
  return sessionStorage.getItem(TOKEN) !== null;
}

/** A value as its JSON, or a text that is JSON already. */
type Body = { json: unknown } | { text: string };

interface Ask {
  body?: Body | undefined;
  accept?: string;
  signal?: AbortSignal | undefined;
}

async function problemOf(response: Response): Promise<Problem> {
  let body: ProblemBody = {
    type: 'about:blank',
    title: `${response.status} ${response.statusText}`,
    status: response.status,
  };
  try {
    body = { ...body, ...((await response.json()) as ProblemBody) };
  } catch {
    // not of the service itself: a proxy answers with what it likes
  }
  return new Problem(body, Number(response.headers.get('Retry-After') ?? 0));
}

/** The service is away, or went away in the middle of an answer. */
export function away(): Problem {
  const detail = 'It is not running, or the network to it is down. Nothing here is lost.';
  return new Problem({ type: 'about:blank', title: 'The service does not answer.', status: 0, detail });
}

/** What arrives of an answer; what breaks off is a service that is away. */
async function arriving<T>(part: Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await part;
  } catch (error) {
    throw signal?.aborted || error instanceof SyntaxError ? error : away();
  }
}

/** Any call; throws a Problem unless it succeeds. */
export async function request(method: string, path: string, ask: Ask = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: ask.accept ?? 'application/json' };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers['Authorization'] = `Bearer ${token}`;
  const init: RequestInit = { method, headers };
  if (ask.body) {
    headers['Content-Type'] = 'application/json';
    init.body = 'text' in ask.body ? ask.body.text : JSON.stringify(ask.body.json);
  }
  if (ask.signal) init.signal = ask.signal;
  const response = await arriving(fetch(path, init), ask.signal);
  if (response.ok) return response;
  if (response.status === 401) for (const listener of wanting) listener();
  throw await problemOf(response);
}

async function call<T>(method: string, path: string, ask: Ask): Promise<Answer<T>> {
  const response = await request(method, path, ask);
  return { status: response.status, data: (await arriving(response.json(), ask.signal)) as T };
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await call<T>('GET', path, { signal })).data;
}

/** A node of a joint graph in the words of a forward one: no backward, all results as one output. */
function forwardOf(node: JointNode, ids: Set<string>): Node {
  const results = node.outputs?.map((result) => result.bytes) ?? [node.output_bytes ?? 0];
  const source = (input: string): string => (ids.has(input) ? input : input.slice(0, input.lastIndexOf(':')));
  return {
    id: node.id,
    op: node.op ?? '',
    inputs: [...new Set(node.inputs?.map(source))],
    forward_time: node.time,
    backward_time: 0,
    output_bytes: results.reduce((sum, bytes) => sum + bytes, 0),
    gradient_bytes: 0,
    forward_workspace_bytes: node.workspace_bytes ?? 0,
  };
}

/** A profile as the views read it. */
export async function getProfile(id: string, signal?: AbortSignal): Promise<StoredProfile> {
  const stored = await get<StoredProfile>(`/v1/profiles/${id}`, signal);
  const { profile } = stored;
  if (profile.graph !== 'joint') return stored;
  const nodes = profile.nodes as unknown as JointNode[];
  const ids = new Set([...nodes, ...(profile.inputs ?? [])].map((one) => one.id));
  return { ...stored, profile: { ...profile, nodes: nodes.map((node) => forwardOf(node, ids)) } };
}

export function post<T>(path: string, json: unknown, signal?: AbortSignal): Promise<Answer<T>> {
  return call<T>('POST', path, { body: { json }, signal });
}

export function postText<T>(path: string, text: string): Promise<Answer<T>> {
  return call<T>('POST', path, { body: { text } });
}

export async function cancelJob(id: string): Promise<Job> {
  return (await call<Job>('DELETE', `/v1/jobs/${id}`, {})).data;
}

/** path with its query; what is empty is left out. */
export function withQuery(path: string, query: Record<string, string | number | undefined>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

/* ---- jobs ---- */

/** The events of a job until it ends, read from the response as it comes: a browser's own reader of
 * server-sent events could not send a token. */
export async function* watchJob(id: string, signal: AbortSignal): AsyncGenerator<Job> {
  const response = await request('GET', `/v1/jobs/${id}/events`, { accept: 'text/event-stream', signal });
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const { done, value } = await arriving(reader.read(), signal);
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const events = text.split('\n\n');
    text = events.pop() ?? '';
    for (const event of events) {
      const data = event.split('\n').find((line) => line.startsWith('data: '));
      if (data) yield JSON.parse(data.slice('data: '.length)) as Job;
    }
  }
}

export interface Question {
  profile_id: string;
  solver?: string;
  options?: Record<string, unknown>;
  link?: Record<string, unknown>;
}

export type Effort = 'quick' | 'thorough';

/** Seconds for a quick answer, or for its refusal, to come without a look at its job. */
const PROMPT = 2;

/** A schedule, or the job that is going to find it. */
export async function askSchedule(
  question: Question & { budget: number | string; layout?: boolean; effort?: Effort },
  signal?: AbortSignal,
): Promise<{ schedule: Schedule } | { job: Job }> {
  const answer = await post<Schedule & Job>('/v1/schedules', { ...question, wait: PROMPT }, signal);
  return answer.status === 202 ? { job: answer.data } : { schedule: answer.data };
}

/** Seconds for which one call waits for its tables; after that its job is watched. */
const PATIENCE = 20;

function pause(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal.addEventListener('abort', () => (clearTimeout(timer), reject(signal.reason as Error)), { once: true });
  });
}

/** The trade-off curve, however long it takes; onProgress gets the part of it that is done. */
export async function askTradeoff(
  question: Question & { points: number },
  signal: AbortSignal,
  onProgress?: (fraction: number) => void,
): Promise<Point[]> {
  for (;;) {
    try {
      const answer = await post<Point[] & Job>('/v1/tradeoffs', { ...question, wait: PATIENCE }, signal);
      if (answer.status !== 202) return answer.data;
      for await (const job of watchJob(answer.data.job_id, signal)) {
        if (job.problem) throw new Problem(job.problem);
        onProgress?.(job.progress);
      }
    } catch (problem) {
      if (!(problem instanceof Problem) || problem.status !== 503) throw problem;
      await pause(Math.max(1, problem.retryAfter), signal);
    }
  }
}
