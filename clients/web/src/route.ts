/** Where the page is: a path and a query after the #, so that every view has an address. */

import { useEffect, useState } from 'preact/hooks';

export interface Route {
  path: string[];
  query: URLSearchParams;
}

type Query = Record<string, string | number | undefined>;

export function readRoute(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  return { path: path.split('/').filter(Boolean), query: new URLSearchParams(query) };
}

export function href(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path}${text ? `?${text}` : ''}`;
}

export function go(path: string, query: Query = {}): void {
  location.hash = href(path, query);
}

/** The same, in the place of the present address. */
export function goInstead(path: string, query: Query = {}): void {
  location.replace(href(path, query));
}

/** Notes a part of the view in the address, without a new entry in the history and without a new
 * route: who notes it knows it. */
export function note(changes: Query): void {
  const { path, query } = readRoute(location.hash);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined || value === '') query.delete(name);
    else query.set(name, String(value));
  }
  history.replaceState(null, '', href(path.join('/'), Object.fromEntries(query)));
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => readRoute(location.hash));
  useEffect(() => {
    const changed = () => setRoute(readRoute(location.hash));
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return route;
}
