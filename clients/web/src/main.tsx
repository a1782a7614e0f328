/** The frame around every view: where one can go, the token, the theme. */

import { render, type ComponentType, type VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { away, hasToken, onTokenWanted, setToken } from './api';
import { Profiles } from './profiles';
import { href, useRoute, type Route } from './route';
import { nextTheme, startTheme, themeName } from './theme';
import { Retry, Title } from './ui';

export interface ViewProps {
  route: Route;
}

type View = ComponentType<ViewProps>;

/** Views that are fetched when they are first opened, by the first word of their address. */
const later: Record<string, () => Promise<View>> = {
  profile: async () => (await import('./profile')).ProfileView,
  schedule: async () => (await import('./schedule')).ScheduleView,
  compare: async () => (await import('./compare')).CompareView,
  job: async () => (await import('./job')).JobView,
  service: async () => (await import('./service')).ServiceView,
  plan: async () => (await import('./plan')).PlanView,
};

const fetched: Record<string, View> = { profiles: Profiles };

function Nowhere(): VNode {
  return (
    <>
      <Title plain="Nothing here">Nothing here</Title>
      <p>
        No view has this address. <a href={href('profiles')}>All profiles</a>
      </p>
    </>
  );
}

function Main({ route }: ViewProps): VNode {
  const name = route.path[0] ?? 'profiles';
  const [, setFetched] = useState('');
  const [problem, setProblem] = useState<unknown>();
  useEffect(() => {
    const load = later[name];
    setProblem(undefined);
    if (fetched[name] || !load) return;
    load().then(
      (view) => {
        fetched[name] = view;
        setFetched(name);
      },
      () => setProblem(away()),
    );
  }, [name]);
  /* a browser may remember that a module could not be fetched: only a new document asks for it again */
  if (problem) return <Retry problem={problem} retry={() => location.reload()} />;
  const View = fetched[name];
  if (View) return <View key={route.path.slice(0, name === 'compare' ? 3 : 2).join('/')} route={route} />;
  return later[name] ? <p class="quiet">Loading…</p> : <Nowhere />;
}

/* ---- the token ---- */

function TokenDialog({ onDone }: { onDone: () => void }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState('');
  useEffect(() => dialog.current?.showModal(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    setToken(text.trim());
    onDone();
  };
  return (
    <dialog ref={dialog} aria-labelledby="token-head" onClose={onDone}>
      <form onSubmit={submit}>
        <h2 id="token-head">A token is needed</h2>
        <p>
          {hasToken() ? 'The service does not know the token of this tab.' : 'This service asks for a bearer token.'}
        </p>
        <label>
          Token
          <input
            type="password"
            autoComplete="off"
            required
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <p class="quiet">It is kept until the tab is closed.</p>
        <p class="actions">
          <button type="submit" class="primary">
            Use it
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            Not now
          </button>
        </p>
      </form>
    </dialog>
  );
}

/* ---- the frame ---- */

function Theme(): VNode {
  const [name, setName] = useState(themeName());
  return (
    <button type="button" class="plain" onClick={() => setName(nextTheme())}>
      Theme: {name}
    </button>
  );
}

function App(): VNode {
  const route = useRoute();
  const [wanted, setWanted] = useState(false);
  const [generation, setGeneration] = useState(0);
  useEffect(() => onTokenWanted(() => setWanted(true)), []);
  const done = () => {
    setWanted(false);
    setGeneration((n) => n + 1);
  };
  const here = route.path[0] ?? 'profiles';
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.querySelector('h1')?.focus())}>
        To the content
      </a>
      <header>
        <a class="brand" href={href('profiles')}>
          remat
        </a>
        <nav aria-label="Views">
          <a href={href('profiles')} aria-current={here === 'profiles' ? 'page' : undefined}>
            Profiles
          </a>
          <a href={href('plan')} aria-current={here === 'plan' ? 'page' : undefined}>
            Plan
          </a>
          <a href={href('service')} aria-current={here === 'service' ? 'page' : undefined}>
            Service
          </a>
          <a href="/docs">API</a>
        </nav>
        <Theme />
        {hasToken() && (
          <button type="button" class="plain" onClick={() => (setToken(''), done())}>
            Forget token
          </button>
        )}
      </header>
      <main id="main" key={generation}>
        <Main route={route} />
      </main>
      {wanted && <TokenDialog onDone={done} />}
    </>
  );
}

startTheme();
render(<App />, document.body);
