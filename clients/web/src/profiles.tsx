/** All profiles: search, sort, page, post. */

import type { VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { get, withQuery } from './api';
import { count, when } from './format';
import { Drop } from './drop';
import type { ViewProps } from './main';
import { href, note } from './route';
import type { ProfileItem } from './types';
import { Name, Show, Table, Title, useLoad, type Column, type Order } from './ui';
import { Samples, Welcome } from './welcome';

/** The service gives this many at a time; they are sorted here. */
const FETCHED = 1000;

interface Fetched {
  profiles: ProfileItem[];
  next: string | null;
}

const columns: Column<ProfileItem>[] = [
  {
    title: 'Name',
    key: (p) => p.name,
    cell: (p) => (
      <a href={href(`profile/${p.profile_id}`)}>
        <Name text={p.name} />
      </a>
    ),
  },
  { title: 'Kind', key: (p) => p.kind, cell: (p) => p.kind },
  { title: 'Nodes', key: (p) => p.nodes, cell: (p) => count(p.nodes), numeric: true },
  { title: 'Edges', key: (p) => p.edges, cell: (p) => count(p.edges), numeric: true },
  { title: 'Schedules', key: (p) => p.schedules, cell: (p) => count(p.schedules), numeric: true },
  { title: 'Posted', key: (p) => p.created, cell: (p) => <time dateTime={p.created}>{when(p.created)}</time> },
  { title: 'Last used', key: (p) => p.last_used, cell: (p) => <time dateTime={p.last_used}>{when(p.last_used)}</time> },
];

function readOrder(text: string | null): Order | undefined {
  return text ? { column: text.replace(/^-/, ''), down: text.startsWith('-') } : undefined;
}

/** The search text, a moment after the last key. */
function useSearch(first: string): [string, string, (text: string) => void] {
  const [typed, setTyped] = useState(first);
  const [settled, setSettled] = useState(first);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (text: string) => {
    setTyped(text);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      setSettled(text);
      note({ name: text, page: undefined });
    }, 200);
  };
  return [typed, settled, type];
}

export function Profiles({ route }: ViewProps): VNode {
  const [typed, name, type] = useSearch(route.query.get('name') ?? '');
  const [more, setMore] = useState<string[]>([]);
  const fetchedPages = useLoad(
    (signal) =>
      Promise.all(
        ['', ...more].map((cursor) =>
          get<Fetched>(withQuery('/v1/profiles', { name, cursor, limit: FETCHED }), signal),
        ),
      ),
    [name, more],
  );
  const search = (text: string) => {
    setMore([]);
    type(text);
  };
  const empty = !name && fetchedPages.data?.every((page) => page.profiles.length === 0);
  if (empty)
    return (
      <>
        <Title plain="remat">remat</Title>
        <Welcome />
      </>
    );
  return (
    <>
      <Title plain="Profiles">Profiles</Title>
      <div class="bar top">
        <label class="search">
          Search by name
          <input type="search" value={typed} maxLength={200} onInput={(event) => search(event.currentTarget.value)} />
        </label>
        <Drop />
      </div>
      <Show of={fetchedPages}>
        {(pages) => {
          const rows = pages.flatMap((page) => page.profiles);
          const next = pages[pages.length - 1]?.next;
          return (
            <>
              <p role="status" class="quiet">
                {count(rows.length)} {rows.length === 1 ? 'profile' : 'profiles'}
                {name && ' of that name'}
                {next && ', the newest; there are more'}
              </p>
              {rows.length > 0 && (
                <Table
                  key={name}
                  caption="Profiles"
                  columns={columns}
                  rows={rows}
                  rowKey={(p) => p.profile_id}
                  order={readOrder(route.query.get('sort'))}
                  page={Number(route.query.get('page') ?? 0)}
                  noted
                />
              )}
              {next && (
                <p>
                  <button type="button" onClick={() => setMore([...more, next])}>
                    Fetch {count(FETCHED)} more
                  </button>
                </p>
              )}
            </>
          );
        }}
      </Show>
      <h2>Sample networks</h2>
      <Samples />
    </>
  );
}
