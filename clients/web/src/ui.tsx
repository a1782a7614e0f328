/** The parts that views are made of. */

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { Problem } from './api';
import { count } from './format';
import { href, note } from './route';

/** A text that users chose: set apart from the direction of what is around it, cut where it is long. */
export function Name({ text }: { text: string }): VNode {
  return (
    <bdi class="name" title={text}>
      {text}
    </bdi>
  );
}

/** The start of an id; the whole of it on the title. */
export function Id({ id }: { id: string }): VNode {
  return (
    <code class="id" title={id}>
      {id.slice(0, 12)}
    </code>
  );
}

export function ProblemBox({ problem, children }: { problem: unknown; children?: ComponentChildren }): VNode {
  const body = problem instanceof Problem ? problem.body : { title: String(problem), status: 0, type: '' };
  return (
    <div class="problem" role="alert">
      <strong>{body.title}</strong>
      {'field' in body && body.field && (
        <p>
          at <code class="field">{body.field}</code>
        </p>
      )}
      {'detail' in body && body.detail && (
        <p>
          <bdi>{body.detail}</bdi>
        </p>
      )}
      {children}
    </div>
  );
}

/* ---- loading ---- */

export interface Loaded<T> {
  data?: T;
  problem?: unknown;
  loading: boolean;
  /** Loads again. */
  retry: () => void;
}

/** What load brings; again whenever one of the keys changes. What was there stays until then. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, keys: unknown[]): Loaded<T> {
  const [state, setState] = useState<Omit<Loaded<T>, 'retry'>>({ loading: true });
  const [tries, setTries] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    load(abort.signal).then(
      (data) => !abort.signal.aborted && setState({ data, loading: false }),
      (problem: unknown) => !abort.signal.aborted && setState({ problem, loading: false }),
    );
    return () => abort.abort();
  }, [...keys, tries]);
  return { ...state, retry: () => setTries(tries + 1) };
}

/** A problem with a button that tries again, where that may help. */
export function Retry({ problem, retry }: { problem: unknown; retry: () => void }): VNode {
  const { status } = problem instanceof Problem ? problem : { status: -1 };
  return (
    <ProblemBox problem={problem}>
      {(status === 0 || status >= 500) && (
        <p>
          <button type="button" onClick={retry}>
            Try again
          </button>
        </p>
      )}
    </ProblemBox>
  );
}

/** What is loaded, or that it is on its way, or why it is not there. */
export function Show<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }): VNode {
  if (of.problem) return <Retry problem={of.problem} retry={of.retry} />;
  if (of.data === undefined) return <p class="quiet">Loading…</p>;
  return <>{children(of.data)}</>;
}

/* ---- facts and tabs ---- */

export function Facts({ list }: { list: [string, ComponentChildren][] }): VNode {
  return (
    <dl class="facts">
      {list.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Links to the parts of a view. */
export function Tabs({
  label,
  path,
  parts,
  now,
}: {
  label: string;
  path: string;
  parts: string[];
  now: string;
}): VNode {
  return (
    <nav class="tabs" aria-label={label}>
      {parts.map((part) => (
        <a href={href(`${path}/${part}`)} aria-current={part === now ? 'page' : undefined}>
          {part[0]?.toUpperCase() + part.slice(1)}
        </a>
      ))}
    </nav>
  );
}

/* ---- tables ---- */

export interface Column<T> {
  title: string;
  cell: (row: T) => ComponentChildren;
  /** What to sort by; a column without it is not sorted. */
  key?: (row: T) => number | string;
  numeric?: boolean;
}

export interface Order {
  column: string;
  down: boolean;
}

function sorted<T>(rows: T[], columns: Column<T>[], order: Order | undefined): T[] {
  const key = columns.find((column) => column.title === order?.column)?.key;
  if (!key || !order) return rows;
  const sign = order.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const x = key(a);
    const y = key(b);
    return sign * (typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y)));
  });
}

/** Room for a table that may be wider than the window. */
export function Scroll({ label, children }: { label: string; children: ComponentChildren }): VNode {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      {children}
    </div>
  );
}

interface TableProps<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string | number;
  pageSize?: number;
  order?: Order | undefined;
  page?: number;
  /** Keeps order and page in the address. */
  noted?: boolean;
  rowClass?: (row: T) => string;
}

/** A table that is sorted by its heads and shown page by page. */
export function Table<T>(props: TableProps<T>): VNode {
  const { caption, columns, rows, pageSize = 50, noted } = props;
  const [order, setOrder] = useState(props.order);
  const [page, setPage] = useState(props.page ?? 0);
  const inOrder = useMemo(() => sorted(rows, columns, order), [rows, order]);
  const pages = Math.max(1, Math.ceil(rows.length / pageSize));
  const at = Math.min(page, pages - 1);
  const turn = (to: number) => {
    setPage(to);
    if (noted) note({ page: to || undefined });
  };
  const sortBy = (column: string) => {
    const next = { column, down: order?.column === column ? !order.down : false };
    setOrder(next);
    turn(0);
    if (noted) note({ sort: (next.down ? '-' : '') + column });
  };
  return (
    <div class="tabled">
      <Scroll label={caption}>
        {/* the roles are those that the elements have; where rows are shown as cards, browsers forget them */}
        <table role="table">
          <caption class="hidden">{caption}</caption>
          <thead role="rowgroup">
            <tr role="row">
              {columns.map((column) => (
                <Head column={column} order={order} onSort={() => sortBy(column.title)} />
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {inOrder.slice(at * pageSize, (at + 1) * pageSize).map((row) => (
              <tr key={props.rowKey(row)} role="row" class={props.rowClass?.(row)}>
                {columns.map((column) => (
                  <td role="cell" class={column.numeric ? 'number' : undefined} data-title={column.title}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {pages > 1 && <Pager page={at} pages={pages} total={rows.length} onTurn={turn} />}
    </div>
  );
}

function Head<T>({
  column,
  order,
  onSort,
}: {
  column: Column<T>;
  order: Order | undefined;
  onSort: () => void;
}): VNode {
  const mine = order?.column === column.title;
  return (
    <th
      scope="col"
      role="columnheader"
      class={column.numeric ? 'number' : undefined}
      aria-sort={mine ? (order.down ? 'descending' : 'ascending') : undefined}
    >
      {column.key ? (
        <button type="button" class="head" onClick={onSort}>
          {column.title}
          <span aria-hidden="true">{mine ? (order.down ? ' ▾' : ' ▴') : ''}</span>
        </button>
      ) : (
        column.title
      )}
    </th>
  );
}

function Pager({
  page,
  pages,
  total,
  onTurn,
}: {
  page: number;
  pages: number;
  total: number;
  onTurn: (page: number) => void;
}): VNode {
  return (
    <p class="pager">
      <button type="button" disabled={page === 0} onClick={() => onTurn(page - 1)}>
        Previous
      </button>
      <span>
        page {page + 1} of {pages}, {count(total)} in all
      </span>
      <button type="button" disabled={page === pages - 1} onClick={() => onTurn(page + 1)}>
        Next
      </button>
    </p>
  );
}

/* ---- heads ---- */

/** The head of a view. It takes the focus when the view comes, so that a screen reader says where it is. */
export function Title({ children, plain }: { children: ComponentChildren; plain: string }): VNode {
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${plain.slice(0, 80)} · remat`;
  }, [plain]);
  useEffect(() => head.current?.focus({ preventScroll: true }), []);
  return (
    <h1 ref={head} tabIndex={-1}>
      {children}
    </h1>
  );
}
