/** A profile's graph, laid out in layers, its nodes coloured by a number. */

import type { VNode } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { Canvas, type Redraw } from './canvas';
import { Camera } from './camera';
import { drawGraph, HEIGHT, nodeAt, WIDTH, type Picture } from './graph_draw';
import type { Folded, LayoutRequest } from './layout';
import { colour } from './theme';
import type { Profile } from './types';
import { Name, ProblemBox } from './ui';

declare const LAYOUT_WORKER: string;

const GAP = 14;
const CANVAS_HEIGHT = 520;

/** from, to, from, to… between nodes; graph inputs are no nodes. */
function edgesOf(profile: Profile): Uint32Array {
  const index = new Map(profile.nodes.map((node, v) => [node.id, v]));
  const edges: number[] = [];
  profile.nodes.forEach((node, v) => {
    for (const input of new Set(node.inputs)) {
      const from = index.get(input);
      if (from !== undefined) edges.push(from, v);
    }
  });
  return Uint32Array.from(edges);
}

function useLayout(profile: Profile): { layout?: Folded; edges: Uint32Array; failed: boolean } {
  const edges = useMemo(() => edgesOf(profile), [profile]);
  const [layout, setLayout] = useState<Folded>();
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    const worker = new Worker(LAYOUT_WORKER, { type: 'module' });
    worker.onmessage = (event: MessageEvent<Folded>) => setLayout(event.data);
    worker.onerror = () => setFailed(true);
    const request: LayoutRequest = {
      n: profile.nodes.length,
      edges,
      width: WIDTH,
      height: HEIGHT,
      gap: GAP,
      aspect: Math.min(document.body.clientWidth, 1240) / CANVAS_HEIGHT,
    };
    worker.postMessage(request);
    return () => worker.terminate();
  }, [profile]);
  return { ...(layout && { layout }), edges, failed };
}

interface GraphProps {
  profile: Profile;
  /** By node, what colours it. */
  values: number[];
  /** What the values are, for the legend. */
  meaning: string;
  show: (value: number) => string;
  selected: number;
  onSelect: (node: number) => void;
}

export function Graph(props: GraphProps): VNode {
  const { layout, edges, failed } = useLayout(props.profile);
  if (failed) return <ProblemBox problem="The graph could not be laid out." />;
  if (!layout)
    return (
      <p class="quiet" role="status">
        Laying out {props.profile.nodes.length} nodes…
      </p>
    );
  return <Drawn {...props} layout={layout} edges={edges} />;
}

function Drawn({
  profile,
  values,
  meaning,
  show,
  selected,
  onSelect,
  layout,
  edges,
}: GraphProps & { layout: Folded; edges: Uint32Array }): VNode {
  const camera = useMemo(() => new Camera(layout.width, layout.height), [layout]);
  const redraw = useRef<Redraw>(() => undefined);
  const [hovered, setHovered] = useState(-1);
  const most = useMemo(() => values.reduce((a, b) => Math.max(a, b), 0), [values]);
  const labels = useMemo(() => profile.nodes.map((node) => node.id.slice(0, 40)), [profile]);
  const picture: Picture = { layout, edges, values, most, labels, selected, hovered };
  useEffect(() => redraw.current(), [values, selected, hovered]);
  const ready = (again: Redraw, canvas: HTMLCanvasElement) => {
    redraw.current = again;
    return camera.control(canvas, again, {
      hover: (x, y) => setHovered(nodeAt(layout, x, y)),
      press: (x, y) => onSelect(nodeAt(layout, x, y)),
    });
  };
  const node = profile.nodes[hovered];
  return (
    <figure class="graph">
      <div class="bar">
        <Legend meaning={meaning} quarter={show(most / 4)} most={show(most)} />
        <span class="spring" />
        <button type="button" aria-label="Zoom in" onClick={() => (camera.zoom(1.4), redraw.current())}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={() => (camera.zoom(1 / 1.4), redraw.current())}>
          −
        </button>
        <button type="button" onClick={() => (camera.fit(), redraw.current())}>
          Whole graph
        </button>
      </div>
      <Canvas
        name="draw-graph"
        label={`Graph of ${profile.nodes.length} nodes, coloured by ${meaning}. Drag or arrow keys move it, the wheel, plus and minus zoom, 0 shows all. The same numbers are in the table of costs.`}
        height={CANVAS_HEIGHT}
        draw={(context, width, height) => drawGraph(context, width, height, camera, picture)}
        onReady={ready}
      />
      <figcaption aria-hidden="true">
        {node ? (
          <>
            <Name text={node.id} />{' '}
            {node.op && (
              <span class="quiet">
                <Name text={node.op} />
              </span>
            )}{' '}
            {meaning} {show(values[hovered] ?? 0)}
          </>
        ) : (
          <span class="quiet">Data flows downwards, column after column.</span>
        )}
      </figcaption>
    </figure>
  );
}

/** The colours go with the square root: the half of the strip is a quarter of the most. */
function Legend({ meaning, quarter, most }: { meaning: string; quarter: string; most: string }): VNode {
  const strip = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (strip.current)
      strip.current.style.background = `linear-gradient(to right, ${colour('heat-0')}, ${colour('heat-1')}, ${colour('heat-2')})`;
  });
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
