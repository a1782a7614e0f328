/** The operation that is looked at: stepping, what it does, what is alive. */

import type { VNode } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';

import { amount, percent, time } from './format';
import { note } from './route';
import { aliveAt, operationName, operationText, valueName, type Replay } from './replay';
import type { SpanView } from './span_view';
import { Facts, Name, Table, type Column } from './ui';

interface Alive {
  key: number;
  kind: string;
  name: string;
  bytes: number;
  first: number;
  last: number;
  address: number | undefined;
}

function aliveRows(replay: Replay, i: number): Alive[] {
  return aliveAt(replay, i).flatMap((k) => {
    const value = replay.values[k];
    if (!value) return [];
    const [kind, name] = valueName(replay, value);
    return [{ key: k, kind, name, bytes: value[2], first: value[3], last: value[4], address: replay.offsets[k] }];
  });
}

function AliveTable({ replay, step }: { replay: Replay; step: number }): VNode {
  const rows = useMemo(() => aliveRows(replay, step), [replay, step]);
  const columns: Column<Alive>[] = [
    {
      title: 'Value',
      key: (row) => row.kind,
      cell: (row) => (
        <>
          {row.kind} <Name text={row.name} />
        </>
      ),
    },
    { title: 'Bytes', key: (row) => row.bytes, cell: (row) => amount(row.bytes), numeric: true },
    {
      title: 'Of the budget',
      key: (row) => row.bytes,
      cell: (row) => percent(row.bytes / replay.budget),
      numeric: true,
    },
    { title: 'From', key: (row) => row.first, cell: (row) => (row.first < 0 ? 'start' : row.first), numeric: true },
    { title: 'To', key: (row) => row.last, cell: (row) => row.last, numeric: true },
    ...(replay.offsets.length > 0
      ? [
          {
            title: 'Address',
            key: (row: Alive) => row.address ?? 0,
            cell: (row: Alive) => row.address?.toLocaleString('en') ?? '',
            numeric: true,
          },
        ]
      : []),
  ];
  return <Table caption="Values alive" columns={columns} rows={rows} rowKey={(row) => row.key} pageSize={12} />;
}

/** The step of the view, as it changes; noted in the address a moment later. */
function useStep(view: SpanView): number {
  const [step, setStep] = useState(view.step);
  useEffect(() => view.listen(() => setStep(view.step)), [view]);
  useEffect(() => {
    const timer = setTimeout(() => note({ step: step || undefined }), 150);
    return () => clearTimeout(timer);
  }, [step]);
  return step;
}

export function Inspector({ replay, view }: { replay: Replay; view: SpanView }): VNode {
  const step = useStep(view);
  const [words, whose] = operationName(replay, step);
  const said = `operation ${step}: ${operationText(replay, step).slice(0, 120)}, ${amount(replay.during[step] ?? 0, replay.pebbles)}`;
  return (
    <section class="inspector" aria-label="The operation looked at">
      <div class="bar">
        <button
          type="button"
          onClick={() => view.setStep(step - 1)}
          disabled={step === 0}
          aria-label="Operation before"
        >
          ‹
        </button>
        <label class="grow">
          <span class="hidden">Operation</span>
          <input
            type="range"
            min={0}
            max={replay.n - 1}
            value={step}
            aria-valuetext={said}
            onInput={(event) => view.setStep(event.currentTarget.valueAsNumber)}
          />
        </label>
        <button
          type="button"
          onClick={() => view.setStep(step + 1)}
          disabled={step === replay.n - 1}
          aria-label="Operation after"
        >
          ›
        </button>
        <button type="button" onClick={() => view.setStep(replay.peakOperation)}>
          Peak
        </button>
      </div>
      <p class="operation" role="status">
        <span class="quiet">
          operation {step}, of 0 to {replay.n - 1}:
        </span>{' '}
        {words} <Name text={whose} />
      </p>
      <Facts
        list={[
          ['begins at', time(replay.stream.from[step] ?? 0, replay.timeUnit)],
          ['takes', time((replay.stream.to[step] ?? 0) - (replay.stream.from[step] ?? 0), replay.timeUnit)],
          ['memory during', amount(replay.during[step] ?? 0, replay.pebbles)],
          ['memory after', amount(replay.after[step] ?? 0, replay.pebbles)],
          ['of the budget', percent((replay.during[step] ?? 0) / replay.budget)],
        ]}
      />
      {replay.values.length > 0 && <AliveTable replay={replay} step={step} />}
    </section>
  );
}
