/** Where the nodes of a graph are, and the layout folded into columns as text is: the graph of a
 * network is a strip a hundred times as long as it is wide. */

export interface LayoutRequest {
  n: number;
  /** from, to, from, to… */
  edges: Uint32Array;
  width: number;
  height: number;
  gap: number;
  /** Of the place it is drawn in: width / height. */
  aspect: number;
}

/** Centres of the nodes; for each edge its corners: x, y, x, y… */
export interface Layout {
  x: Float32Array;
  y: Float32Array;
  bends: number[][];
  width: number;
  height: number;
}

export interface Folded {
  x: Float32Array;
  y: Float32Array;
  /** Corners of all edges, x, y, x, y…; NaN, NaN where a line goes on in another column. */
  corners: Float32Array;
  /** By edge: where its corners start; one more at the end. */
  first: Uint32Array;
  width: number;
  height: number;
}

interface Columns {
  /** The first y of each column, and the end. */
  tops: number[];
  /** What is added to x in each column. */
  shifts: number[];
  width: number;
}

/** Cuts between layers, so that every one of so many columns is about as high. */
function cut(layout: Layout, layers: number[], columns: number, { gap, height }: LayoutRequest): number[] {
  const tops = [0];
  for (const y of layers)
    if (tops.length < columns && y - height / 2 >= (layout.height * tops.length) / columns)
      tops.push(y - (height + gap) / 2);
  return [...tops, layout.height];
}

function columnAt(tops: number[], y: number): number {
  let at = 0;
  while (at < tops.length - 2 && y >= (tops[at + 1] ?? Infinity)) at++;
  return at;
}

/** Sets the columns beside each other, each as wide as what is in it. */
function place(layout: Layout, tops: number[], request: LayoutRequest): Columns {
  const low = tops.map(() => Infinity);
  const high = tops.map(() => -Infinity);
  const widen = (x: number, y: number, room: number) => {
    const at = columnAt(tops, y);
    low[at] = Math.min(low[at] ?? x, x - room);
    high[at] = Math.max(high[at] ?? x, x + room);
  };
  layout.x.forEach((x, v) => widen(x, layout.y[v] ?? 0, request.width / 2));
  for (const bends of layout.bends)
    for (let i = 0; i < bends.length; i += 2) widen(bends[i] ?? 0, bends[i + 1] ?? 0, 0);
  const shifts = [];
  let right = 0;
  for (let at = 0; at < tops.length - 1; at++) {
    shifts.push(right - (low[at] ?? 0));
    right += (high[at] ?? 0) - (low[at] ?? 0) + 3 * request.gap;
  }
  return { tops, shifts, width: right - 3 * request.gap };
}

/** Appends a line from a to b, cut where columns end. */
function line(columns: Columns, ax: number, ay: number, bx: number, by: number, into: number[]): void {
  const last = columnAt(columns.tops, by);
  for (let at = columnAt(columns.tops, ay); at <= last; at++) {
    const top = columns.tops[at] ?? 0;
    const end = columns.tops[at + 1] ?? 0;
    const xAt = (y: number) => ax + ((bx - ax) * (y - ay)) / (by - ay || 1) + (columns.shifts[at] ?? 0);
    const from = Math.max(ay, top);
    if (from !== ay) into.push(NaN, NaN, xAt(from), 0);
    const to = at === last ? by : end;
    into.push(xAt(to), to - top);
  }
}

function heightOf({ tops }: Columns): number {
  return Math.max(...tops.slice(1).map((end, at) => end - (tops[at] ?? 0)));
}

/** The columns in which the graph is seen largest. */
function choose(layout: Layout, request: LayoutRequest): Columns {
  const layers = [...new Set(layout.y)].sort((a, b) => a - b);
  const scale = (columns: Columns) => Math.min(request.aspect / columns.width, 1 / heightOf(columns));
  let best = place(layout, cut(layout, layers, 1, request), request);
  for (let columns = 2; columns <= Math.min(60, layers.length); columns++) {
    const next = place(layout, cut(layout, layers, columns, request), request);
    if (scale(next) <= scale(best)) break;
    best = next;
  }
  return best;
}

export function fold(layout: Layout, request: LayoutRequest): Folded {
  const columns = choose(layout, request);
  const { tops, shifts } = columns;
  const x = layout.x.map((value, v) => value + (shifts[columnAt(tops, layout.y[v] ?? 0)] ?? 0));
  const y = layout.y.map((value) => value - (tops[columnAt(tops, value)] ?? 0));
  const corners: number[] = [];
  const first = new Uint32Array(layout.bends.length + 1);
  layout.bends.forEach((bends, e) => {
    first[e] = corners.length;
    const [ax = 0, ay = 0] = bends;
    const at = columnAt(tops, ay);
    corners.push(ax + (shifts[at] ?? 0), ay - (tops[at] ?? 0));
    for (let i = 2; i < bends.length; i += 2)
      line(columns, bends[i - 2] ?? 0, bends[i - 1] ?? 0, bends[i] ?? 0, bends[i + 1] ?? 0, corners);
  });
  first[layout.bends.length] = corners.length;
  return { x, y, corners: Float32Array.from(corners), first, width: columns.width, height: heightOf(columns) };
}
