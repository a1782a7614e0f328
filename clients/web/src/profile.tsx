/** One profile: its graph, its costs, what can be asked of it and what was. */

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { getProfile } from './api';
import { Ask } from './ask';
import { Curve } from './curve';
import { bytes, count, time } from './format';
import { Graph } from './graph';
import { heat } from './heat';
import type { ViewProps } from './main';
import { href, note, type Route } from './route';
import { ProfileSchedules } from './schedules';
import { colour, onTheme } from './theme';
import type { Node, StoredProfile } from './types';
import { Facts, Id, Name, Scroll, Show, Table, Tabs, Title, useLoad, type Column } from './ui';

const PARTS = ['graph', 'costs', 'curve', 'ask', 'schedules'];

/** A node with its place. */
interface Row extends Node {
  index: number;
}

function rowsOf(profile: StoredProfile): Row[] {
  return profile.profile.nodes.map((node, index) => ({ ...node, index }));
}

const backwardTime = (node: Node): number => node.backward_time ?? 2 * node.forward_time;

/* ---- the graph ---- */

interface Colouring {
  name: string;
  value: (node: Node) => number;
  of: 'time' | 'bytes';
}

const OUTPUT: Colouring = { name: 'output bytes', value: (node) => node.output_bytes, of: 'bytes' };
const COLOURINGS: Colouring[] = [
  { name: 'forward time', value: (node) => node.forward_time, of: 'time' },
  { name: 'backward time', value: backwardTime, of: 'time' },
  OUTPUT,
  { name: 'saved bytes', value: (node) => node.saved_bytes ?? 0, of: 'bytes' },
];
const JOINT_COLOURINGS: Colouring[] = [{ name: 'time', value: (node) => node.forward_time, of: 'time' }, OUTPUT];

function NodeFacts({ node, unit, joint }: { node: Node; unit: string; joint: boolean }): VNode {
  const costs: [string, ComponentChildren][] = joint
    ? [
        ['time', time(node.forward_time, unit)],
        ['output', bytes(node.output_bytes)],
      ]
    : [
        ['forward', time(node.forward_time, unit)],
        ['backward', time(backwardTime(node), unit)],
        ['output', bytes(node.output_bytes)],
        ['saved', bytes(node.saved_bytes ?? 0)],
        ['gradient', bytes(node.gradient_bytes ?? node.output_bytes)],
      ];
  return (
    <section class="node" aria-live="polite">
      <h2>
        <Name text={node.id} />
      </h2>
      <Facts
        list={[
          ['operator', node.op ? <Name text={node.op} /> : '–'],
          ...costs,
          [
            'inputs',
            node.inputs?.length
              ? node.inputs.slice(0, 20).map((id) => (
                  <>
                    <Name text={id} />{' '}
                  </>
                ))
              : 'none',
          ],
        ]}
      />
    </section>
  );
}

/** The colours go with the square root: the half of the strip is a quarter of the most. */
function HeatKey({ meaning, quarter, most }: { meaning: string; quarter: string; most: string }): VNode {
  const strip = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const paint = () => {
      if (strip.current)
        strip.current.style.background = `linear-gradient(to right, ${colour('heat-0')}, ${colour('heat-1')}, ${colour('heat-2')})`;
    };
    paint();
    return onTheme(paint);
  }, []);
  return (
    <span class="legend">
      {meaning}: 0{' '}
      <span ref={strip} class="strip">
        <span>{quarter}</span>
      </span>{' '}
      {most}
    </span>
  );
}

function GraphPart({ profile, route }: { profile: StoredProfile; route: Route }): VNode {
  const colourings = profile.graph ? JOINT_COLOURINGS : COLOURINGS;
  const [by, setBy] = useState(
    Math.max(
      0,
      colourings.findIndex((one) => one.name === route.query.get('by')),
    ),
  );
  const [selected, setSelected] = useState(Number(route.query.get('node') ?? -1));
  const colouring = colourings[by] ?? OUTPUT;
  const values = useMemo(() => profile.profile.nodes.map(colouring.value), [profile, colouring]);
  const most = useMemo(() => values.reduce((a, b) => Math.max(a, b), 0), [values]);
  const show = (value: number) => (colouring.of === 'time' ? time(value, profile.time_unit) : bytes(value));
  const largest = (first: number, end: number) => values.slice(first, end).reduce((a, b) => Math.max(a, b), 0);
  const look = useMemo(
    () => (first: number, end: number) => {
      const { fill, ink } = heat(most > 0 ? Math.sqrt(largest(first, end) / most) : 0);
      return { parts: [{ fill, share: 1 }], ink };
    },
    [values],
  );
  const select = (node: number) => {
    setSelected(node);
    note({ node: node < 0 ? undefined : node });
  };
  const node = profile.profile.nodes[selected];
  return (
    <>
      <label class="inline">
        Colour by{' '}
        <select
          value={by}
          onChange={(event) => {
            const to = Number(event.currentTarget.value);
            setBy(to);
            note({ by: colourings[to]?.name });
          }}
        >
          {colourings.map((one, i) => (
            <option value={i}>{one.name}</option>
          ))}
        </select>
      </label>
      <Graph
        profile={profile.profile}
        height={profile.graph === 'joint' ? 760 : 520}
        meaning={colouring.name}
        legend={<HeatKey meaning={colouring.name} quarter={show(most / 4)} most={show(most)} />}
        look={look}
        tell={(first, end) => `${colouring.name} ${end - first > 1 ? 'at most ' : ''}${show(largest(first, end))}`}
        selected={selected}
        onSelect={select}
      />
      {node && <NodeFacts node={node} unit={profile.time_unit} joint={profile.graph !== undefined} />}
    </>
  );
}

/* ---- costs ---- */

function Costs({ profile }: { profile: StoredProfile }): VNode {
  const unit = profile.time_unit;
  const rows = useMemo(() => rowsOf(profile), [profile]);
  const columns: Column<Row>[] = [
    { title: '#', key: (node) => node.index, cell: (node) => node.index, numeric: true },
    {
      title: 'Node',
      key: (node) => node.id,
      cell: (node) => (
        <a href={href(`profile/${profile.profile_id}/graph`, { node: node.index })}>
          <Name text={node.id} />
        </a>
      ),
    },
    { title: 'Operator', key: (node) => node.op ?? '', cell: (node) => <Name text={node.op ?? ''} /> },
    {
      title: 'Forward',
      key: (node) => node.forward_time,
      cell: (node) => time(node.forward_time, unit),
      numeric: true,
    },
    { title: 'Backward', key: backwardTime, cell: (node) => time(backwardTime(node), unit), numeric: true },
    { title: 'Output', key: (node) => node.output_bytes, cell: (node) => bytes(node.output_bytes), numeric: true },
    {
      title: 'Saved',
      key: (node) => node.saved_bytes ?? 0,
      cell: (node) => bytes(node.saved_bytes ?? 0),
      numeric: true,
    },
    {
      title: 'Workspace',
      key: (node) => Math.max(node.forward_workspace_bytes ?? 0, node.backward_workspace_bytes ?? 0),
      cell: (node) => bytes(Math.max(node.forward_workspace_bytes ?? 0, node.backward_workspace_bytes ?? 0)),
      numeric: true,
    },
  ];
  return <Table caption="Costs of the nodes" columns={columns} rows={rows} rowKey={(node) => node.index} />;
}

/** The least budget of each solver that is quick to ask, as bars of the store-all peak. */
function LeastBudgets({ profile }: { profile: StoredProfile }): VNode | null {
  if (profile.minimum_budgets.every((one) => one.solver === 'store-all')) return null;
  const rows = [...profile.minimum_budgets].sort((a, b) => a.bytes - b.bytes);
  return (
    <details class="least">
      <summary>Least budget of each quick solver by itself</summary>
      {profile.floor !== undefined && <p class="quiet">Below {bytes(profile.floor)} there is no schedule: proven.</p>}
      <Scroll label="Least budget of each solver">
        <table>
          <caption class="hidden">Least budget of each solver</caption>
          <thead>
            <tr>
              <th scope="col">Solver</th>
              <th scope="col" class="number">
                Least budget
              </th>
              <th scope="col">Of storing everything</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr>
                <td>{row.solver}</td>
                <td class="number">{bytes(row.bytes)}</td>
                <td>
                  <meter
                    min={0}
                    max={profile.store_all.peak}
                    value={row.bytes}
                    aria-label={`${row.solver}, of the store-all peak`}
                  />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}

/* ---- the view ---- */

function Part({ part, profile, route }: { part: string; profile: StoredProfile; route: Route }): VNode {
  if (part === 'costs') return <Costs profile={profile} />;
  if (part === 'curve') return <Curve profile={profile} route={route} />;
  if (part === 'ask') return <Ask profile={profile} route={route} />;
  if (part === 'schedules') return <ProfileSchedules profile={profile} />;
  return <GraphPart profile={profile} route={route} />;
}

export function ProfileView({ route }: ViewProps): VNode {
  const id = route.path[1] ?? '';
  const part = route.path[2] ?? 'graph';
  const profile = useLoad((signal) => getProfile(id, signal), [id]);
  return (
    <Show of={profile}>
      {(data) => (
        <>
          <p class="crumbs">
            <a href={href('profiles')}>Profiles</a>
          </p>
          <Title plain={data.name}>
            <Name text={data.name} />
          </Title>
          <Facts
            list={[
              ['kind', (data.graph ? 'joint graph' : data.kind) + (data.homogeneous ? ', homogeneous' : '')],
              ['nodes', count(data.nodes)],
              ['edges', count(data.edges)],
              ['store-all makespan', time(data.store_all.makespan, data.time_unit)],
              ['store-all peak', bytes(data.store_all.peak)],
              ['profile', <Id id={data.profile_id} />],
              ...(data.names ? [['all its names', <Name text={data.names.join(', ')} />] as [string, VNode]] : []),
            ]}
          />
          <LeastBudgets profile={data} />
          <Tabs
            label="Parts of the profile"
            path={`profile/${id}`}
            parts={PARTS}
            now={PARTS.includes(part) ? part : 'graph'}
          />
          <Part key={part} part={part} profile={data} route={route} />
        </>
      )}
    </Show>
  );
}
