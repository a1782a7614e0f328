/** Posting a profile: a file that is chosen, or dropped anywhere on the window. */

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { postText, Problem } from './api';
import { go } from './route';
import type { StoredProfile } from './types';
import { Name, ProblemBox } from './ui';

type Outcome = { state: 'posting'; file: string } | { state: 'refused'; file: string; text: string; problem: unknown };

/** Posts a profile and opens its curve. */
export async function postProfile(text: string): Promise<void> {
  const { data } = await postText<StoredProfile>('/v1/profiles', text);
  go(`profile/${data.profile_id}/curve`);
}

/* ---- the field to blame ---- */

/** The steps of a field such as nodes[3].forward_time. */
function stepsOf(field: string): (string | number)[] {
  return [...field.matchAll(/([^.[\]]+)|\[(\d+)\]/g)].map(([, name, index]) => name ?? Number(index));
}

/** What stands at the field: the innermost object around it, as text, and which line of it is meant. */
function excerpt(text: string, field: string): { lines: string[]; bad: number } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const steps = stepsOf(field);
  const last = steps.pop();
  for (const step of steps) value = (value as Record<string | number, unknown> | null | undefined)?.[step];
  if (typeof value !== 'object' || value === null || last === undefined) return undefined;
  const entries = Object.entries(value);
  const lines = entries.map(([name, one]) => `${JSON.stringify(name)}: ${(JSON.stringify(one) ?? '').slice(0, 200)}`);
  const at = entries.findIndex(([name]) => name === String(last));
  const from = Math.max(0, (at < 0 ? lines.length : at) - 6);
  if (at < 0) lines.push(`${JSON.stringify(String(last))} is missing`);
  return { lines: lines.slice(from, from + 13), bad: (at < 0 ? lines.length - 1 : at) - from };
}

function Refused({ file, text, problem }: { file: string; text: string; problem: unknown }): VNode {
  const field = problem instanceof Problem ? problem.body.field : undefined;
  const around = field === undefined ? undefined : excerpt(text, field.replace(/^profile\./, ''));
  return (
    <ProblemBox problem={problem}>
      <p>
        The file <Name text={file} /> was not stored.
      </p>
      {around && (
        <ol class="excerpt" aria-label="Where in the file">
          {around.lines.map((line, i) => (
            <li class={i === around.bad ? 'bad' : undefined}>
              <bdi>{line}</bdi>
            </li>
          ))}
        </ol>
      )}
    </ProblemBox>
  );
}

/* ---- the place to drop on ---- */

function useDrop(onFile: (file: File) => void): boolean {
  const [over, setOver] = useState(false);
  useEffect(() => {
    const dragged = (event: DragEvent) => {
      if (!event.dataTransfer?.types.includes('Files')) return;
      event.preventDefault();
      setOver(true);
    };
    const left = (event: DragEvent) => event.relatedTarget === null && setOver(false);
    const dropped = (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      const file = event.dataTransfer?.files[0];
      if (file) onFile(file);
    };
    addEventListener('dragover', dragged);
    addEventListener('dragleave', left);
    addEventListener('drop', dropped);
    return () => {
      removeEventListener('dragover', dragged);
      removeEventListener('dragleave', left);
      removeEventListener('drop', dropped);
    };
  }, []);
  return over;
}

export function Drop(): VNode {
  const input = useRef<HTMLInputElement>(null);
  const [outcome, setOutcome] = useState<Outcome>();
  const take = async (file: File) => {
    setOutcome({ state: 'posting', file: file.name });
    const text = await file.text();
    await postProfile(text).catch((problem: unknown) =>
      setOutcome({ state: 'refused', file: file.name, text, problem }),
    );
  };
  const over = useDrop((file) => void take(file));
  const chosen = () => {
    const file = input.current?.files?.[0];
    if (file) void take(file);
    if (input.current) input.current.value = '';
  };
  return (
    <div class={over ? 'drop over' : 'drop'}>
      <label class="file">
        Post a profile: choose a file or drop it here
        <input ref={input} type="file" accept="application/json,.json" onChange={chosen} />
      </label>
      {outcome?.state === 'posting' && (
        <p role="status">
          Posting <Name text={outcome.file} />…
        </p>
      )}
      {outcome?.state === 'refused' && <Refused {...outcome} />}
    </div>
  );
}
