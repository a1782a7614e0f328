/** A profile's graph, laid out in layers, equal blocks folded into one box. */

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { boxesOf, boxOfNode, edgesOf, repeatsOf, turnOf, type Box, type Unfolded } from './blocks';
import { Canvas, type Redraw } from './canvas';
import { Camera } from './camera';
import { count } from './format';
import { boxAt, drawGraph, HEIGHT, WIDTH, type Look, type Picture } from './graph_draw';
import type { Folded, LayoutRequest } from './layout';
import type { Profile } from './types';
import { Name, ProblemBox } from './ui';

declare const LAYOUT_WORKER: string;

const GAP = 14;
/** A graph of fewer nodes is seen whole without folding. */
const FOLDED_FROM = 32;
/** Names in the line below. */
const NAMED = 4;

/** What is drawn: the boxes, and where they are. */
interface Scene {
  boxes: Box[];
  of: Int32Array;
  edges: Uint32Array;
  layout: Folded;
}

/** A box that was unfolded, and where it was on the canvas: its first node is to be there. */
interface Held {
  node: number;
  atX: number;
  atY: number;
}

function useScene(profile: Profile, unfolded: Unfolded, aspect: () => number): { scene?: Scene; failed: boolean } {
  const repeats = useMemo(() => repeatsOf(profile), [profile]);
  const [scene, setScene] = useState<Scene>();
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    const boxes = boxesOf(profile, repeats, unfolded);
    const of = boxOfNode(boxes, profile.nodes.length);
    const edges = edgesOf(profile, of);
    const worker = new Worker(LAYOUT_WORKER, { type: 'module' });
    worker.onmessage = (event: MessageEvent<Folded>) => setScene({ boxes, of, edges, layout: event.data });
    worker.onerror = () => setFailed(true);
    const request: LayoutRequest = {
      n: boxes.length,
      edges,
      width: WIDTH,
      height: HEIGHT,
      gap: profile.graph === 'joint' ? GAP / 2 : GAP,
      aspect: aspect(),
      turn: of[turnOf(profile)] ?? boxes.length,
    };
    worker.postMessage(request);
    return () => worker.terminate();
  }, [profile, unfolded]);
  return { ...(scene && { scene }), failed };
}

interface GraphProps {
  profile: Profile;
  height: number;
  /** Said of the whole drawing. */
  meaning: string;
  legend: ComponentChildren;
  /** How the box of nodes from first to before end looks, and what is said of it. */
  look: (first: number, end: number) => Look;
  tell: (first: number, end: number) => ComponentChildren;
  selected: number;
  onSelect: (node: number) => void;
  /** By node, what was searched for. */
  found?: boolean[] | undefined;
}

/** All repeats with all their copies, or with none. */
function unfoldAll(profile: Profile): Unfolded {
  return new Map(repeatsOf(profile).map(({ copies }, repeat) => [repeat, new Set(Array(copies).keys())]));
}

export function Graph(props: GraphProps): VNode {
  const { profile } = props;
  const all = useMemo(() => unfoldAll(profile), [profile]);
  const none = useMemo((): Unfolded => new Map(), [profile]);
  const [unfolded, setUnfolded] = useState<Unfolded>(profile.nodes.length < FOLDED_FROM ? all : none);
  const place = useRef<HTMLDivElement>(null);
  const { scene, failed } = useScene(profile, unfolded, () => (place.current?.clientWidth ?? 1000) / props.height);
  if (failed) return <ProblemBox problem="The graph could not be laid out." />;
  const unfold = ({ repeat, copy }: Box) => {
    const copies = new Set(unfolded.get(repeat));
    if (copy >= 0) copies.add(copy);
    setUnfolded(new Map(unfolded).set(repeat, copies));
  };
  const folding = all.size > 0 && (
    <>
      <button type="button" disabled={unfolded.size === 0} onClick={() => setUnfolded(none)}>
        Fold equal blocks
      </button>
      <button type="button" disabled={unfolded === all} onClick={() => setUnfolded(all)}>
        Unfold all
      </button>
    </>
  );
  return (
    <div ref={place}>
      {scene ? (
        <Drawn {...props} scene={scene} folding={folding} onUnfold={unfold} />
      ) : (
        <p class="quiet" role="status">
          Laying out {count(profile.nodes.length)} nodes…
        </p>
      )}
    </div>
  );
}

function Drawn(props: GraphProps & { scene: Scene; folding: ComponentChildren; onUnfold: (box: Box) => void }): VNode {
  const { profile, scene, selected, look } = props;
  const { boxes, of, layout, edges } = scene;
  const camera = useMemo(() => new Camera(), []);
  const redraw = useRef<Redraw>(() => undefined);
  const held = useRef<Held | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  const [hovered, setHovered] = useState(-1);
  const centre = (node: number) => ({ x: layout.x[of[node] ?? 0] ?? 0, y: layout.y[of[node] ?? 0] ?? 0 });
  useMemo(() => {
    const hold = held.current;
    camera.setPlane(layout.width, layout.height, hold && { ...centre(hold.node), ...hold });
    held.current = undefined;
    setHovered(-1);
  }, [layout]);
  const picture: Picture = {
    layout,
    edges,
    labels: useMemo(() => boxes.map((box) => box.label.slice(0, 40)), [boxes]),
    sizes: useMemo(() => boxes.map((box) => box.end - box.first), [boxes]),
    look: (b) => look(boxes[b]?.first ?? 0, boxes[b]?.end ?? 0),
    selected: of[selected] ?? -1,
    hovered,
    found: useMemo(
      () => props.found && boxes.map((box) => props.found?.slice(box.first, box.end).some(Boolean) === true),
      [boxes, props.found],
    ),
  };
  useEffect(() => redraw.current(), [look, scene, selected, hovered, props.found]);
  useEffect(() => {
    if (selected < 0) return;
    const { x, y } = centre(selected);
    camera.reveal(x, y);
  }, [selected, layout]);
  const open = (b: number) => {
    const { scene, onSelect, onUnfold } = latest.current;
    const box = scene.boxes[b];
    if (!box || box.end - box.first === 1) {
      onSelect(box?.first ?? -1);
      return;
    }
    held.current = { node: box.first, ...camera.seenAt(scene.layout.x[b] ?? 0, scene.layout.y[b] ?? 0) };
    onUnfold(box);
  };
  const key = (event: KeyboardEvent) => {
    const { scene, selected, onSelect } = latest.current;
    const b = scene.of[selected] ?? -1;
    const by = { j: 1, k: -1 }[event.key];
    const to = by && scene.boxes[Math.max(0, Math.min(scene.boxes.length - 1, b + by))];
    if (to) onSelect(to.first);
    if (event.key === 'Enter') open(b);
  };
  const ready = (again: Redraw, canvas: HTMLCanvasElement) => {
    redraw.current = again;
    canvas.addEventListener('keydown', key);
    return camera.control(canvas, again, {
      hover: (x, y) => setHovered(boxAt(latest.current.scene.layout, x, y)),
      press: (x, y) => open(boxAt(latest.current.scene.layout, x, y)),
    });
  };
  const told = hovered >= 0 ? hovered : (of[selected] ?? -1);
  const seen = () => redraw.current();
  return (
    <figure class="graph" data-boxes={boxes.length}>
      <div class="bar">
        {props.legend}
        <span class="spring" />
        {props.folding}
        <button type="button" aria-label="Zoom in" onClick={() => (camera.zoom(1.4), seen())}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={() => (camera.zoom(1 / 1.4), seen())}>
          −
        </button>
        <button type="button" onClick={() => (camera.fit(), seen())}>
          Whole graph
        </button>
      </div>
      <Canvas
        name="draw-graph"
        label={`Graph of ${count(profile.nodes.length)} nodes in ${count(boxes.length)} boxes, coloured by ${props.meaning}. Drag or arrow keys move it, the wheel, plus and minus zoom, 0 shows all, J and K go from box to box, Enter unfolds one. The same is in a table.`}
        height={props.height}
        draw={(context, width, height) => drawGraph(context, width, height, camera, picture)}
        onReady={ready}
      />
      <figcaption>
        {boxes[told] ? (
          <Told profile={profile} scene={scene} b={told} tell={props.tell} />
        ) : (
          <span class="quiet">
            {profile.graph === 'joint'
              ? 'In each column the forward goes down on the left, the backward up on the right.'
              : 'Data flows downwards, column after column.'}
            {boxes.length < profile.nodes.length && ' A double box is of equal blocks: a click unfolds it.'}
          </span>
        )}
      </figcaption>
    </figure>
  );
}

/** The box under the pointer: what it is, what it takes and who takes it. */
function Told({
  profile,
  scene,
  b,
  tell,
}: {
  profile: Profile;
  scene: Scene;
  b: number;
  tell: GraphProps['tell'];
}): VNode | null {
  const { boxes, edges } = scene;
  const box = boxes[b];
  if (!box) return null;
  const among = (end: 0 | 1) => {
    const found: string[] = [];
    for (let e = 0; e < edges.length; e += 2)
      if (edges[e + 1 - end] === b) found.push(boxes[edges[e + end] ?? 0]?.label ?? '');
    return found.length > NAMED
      ? `${found.slice(0, NAMED).join(', ')} and ${found.length - NAMED} more`
      : found.join(', ');
  };
  const [from, to] = [among(0), among(1)];
  const op = box.end - box.first === 1 ? profile.nodes[box.first]?.op : undefined;
  return (
    <>
      <strong>
        <Name text={box.label} />
      </strong>{' '}
      {box.end - box.first > 1 && `${count(box.end - box.first)} nodes `}
      {op && (
        <span class="quiet">
          <Name text={op} />{' '}
        </span>
      )}
      {tell(box.first, box.end)}
      {from && (
        <>
          {' '}
          <span class="quiet">from</span> <Name text={from} />
        </>
      )}
      {to && (
        <>
          {' '}
          <span class="quiet">to</span> <Name text={to} />
        </>
      )}
    </>
  );
}
