/** Where the boxes of a graph are, and the layout folded into columns as text is: the graph of a
 * network is a strip a hundred times as long as it is wide. Lines that go on in the next column are
 * led there, around the end of the one and the head of the other, without crossing. */

export interface LayoutRequest {
  n: number;
  /** from, to, from, to… */
  edges: Uint32Array;
  width: number;
  height: number;
  gap: number;
  /** Of the place it is drawn in: width / height. */
  aspect: number;
  /** Of a joint graph: its first box of the backward, which is drawn upwards beside the forward; else n. */
  turn: number;
}

/** Centres of the boxes; for each edge its corners: x, y, x, y… */
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
  /** Corners of all edges, x, y, x, y… */
  corners: Float32Array;
  /** By edge: where its corners start; one more at the end. */
  first: Uint32Array;
  width: number;
  height: number;
}

/** Between lines that go on in the next column; closer where they are many. */
const PITCH = 6;
const LANES = 150;

interface Columns {
  /** The first y of each column, and the end. */
  tops: number[];
  /** What is added to x in each column. */
  shifts: number[];
  /** Right end of each column. */
  rights: number[];
  /** Between the lines that leave a column, and how much room they take. */
  pitches: number[];
  room: number[];
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

/** By column, the lines that leave it for the next. */
function leaving(layout: Layout, tops: number[]): number[] {
  const lines = tops.slice(1).map(() => 0);
  for (const bends of layout.bends) {
    const last = columnAt(tops, bends[bends.length - 1] ?? 0);
    for (let at = columnAt(tops, bends[1] ?? 0); at < last; at++) lines[at] = (lines[at] ?? 0) + 1;
  }
  return lines;
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
  const lines = leaving(layout, tops);
  const pitches = lines.map((count) => Math.min(PITCH, LANES / count));
  const room = lines.map((count, at) => (count + 1) * (pitches[at] ?? 0));
  const shifts: number[] = [];
  const rights: number[] = [];
  let right = 0;
  for (let at = 0; at < tops.length - 1; at++) {
    shifts.push(right - (low[at] ?? 0));
    right += (high[at] ?? 0) - (low[at] ?? 0);
    rights.push(right);
    right += 2 * request.gap + (room[at] ?? 0);
  }
  return { tops, shifts, rights, pitches, room, width: rights[rights.length - 1] ?? 0 };
}

/** Room for lines above the columns, and below them. */
function margin({ room, tops }: Columns): number {
  return tops.length > 2 ? Math.max(...room.slice(0, -1)) : 0;
}

function heightOf(columns: Columns): number {
  const { tops } = columns;
  return Math.max(...tops.slice(1).map((end, at) => end - (tops[at] ?? 0))) + 2 * margin(columns);
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

/** Where a line goes from a column to the next: its x on the strip there, and which line it is. */
interface Crossing {
  edge: number;
  x: number;
}

/** x of a line at a height, on the strip. */
function xAt(bends: number[], y: number): number {
  for (let i = 2; i < bends.length; i += 2) {
    const [ax = 0, ay = 0, bx = 0, by = 0] = bends.slice(i - 2, i + 2);
    if (y <= by) return by === ay ? bx : ax + ((bx - ax) * (y - ay)) / (by - ay);
  }
  return bends[bends.length - 2] ?? 0;
}

/** By column, the lines that leave it, the rightmost first: that one turns first and stays innermost. */
function crossingsOf(layout: Layout, tops: number[]): Crossing[][] {
  const crossings: Crossing[][] = tops.slice(1).map(() => []);
  layout.bends.forEach((bends, edge) => {
    const last = columnAt(tops, bends[bends.length - 1] ?? 0);
    for (let at = columnAt(tops, bends[1] ?? 0); at < last; at++)
      crossings[at]?.push({ edge, x: xAt(bends, tops[at + 1] ?? 0) });
  });
  for (const list of crossings) list.sort((a, b) => b.x - a.x);
  return crossings;
}

/** Around the end of a column and the head of the next. */
function turn(columns: Columns, at: number, x: number, rank: number, lines: number, into: number[]): void {
  const { tops, shifts, rights, pitches } = columns;
  const pitch = pitches[at] ?? 0;
  const top = margin(columns);
  const end = (tops[at + 1] ?? 0) - (tops[at] ?? 0) + top;
  const [from, to] = [x + (shifts[at] ?? 0), x + (shifts[at + 1] ?? 0)];
  const low = end + (rank + 1) * pitch;
  const aside = (rights[at] ?? 0) + (rank + 2) * pitch;
  const high = top - (lines - rank) * pitch;
  into.push(from, end, from, low, aside, low, aside, high, to, high, to, top);
}

export function fold(layout: Layout, request: LayoutRequest): Folded {
  const columns = choose(layout, request);
  const { tops, shifts } = columns;
  const top = margin(columns);
  const x = layout.x.map((value, v) => value + (shifts[columnAt(tops, layout.y[v] ?? 0)] ?? 0));
  const y = layout.y.map((value) => value - (tops[columnAt(tops, value)] ?? 0) + top);
  const crossings = crossingsOf(layout, tops);
  const turns: { at: number; x: number; rank: number }[][] = layout.bends.map(() => []);
  crossings.forEach((list, at) => list.forEach((one, rank) => turns[one.edge]?.push({ at, x: one.x, rank })));
  const corners: number[] = [];
  const first = new Uint32Array(layout.bends.length + 1);
  layout.bends.forEach((bends, e) => {
    first[e] = corners.length;
    const ahead = turns[e] ?? [];
    let done = 0;
    for (let i = 0; i < bends.length; i += 2) {
      const at = columnAt(tops, bends[i + 1] ?? 0);
      for (; done < ahead.length && (ahead[done]?.at ?? 0) < at; done++) {
        const one = ahead[done];
        if (one) turn(columns, one.at, one.x, one.rank, crossings[one.at]?.length ?? 0, corners);
      }
      corners.push((bends[i] ?? 0) + (shifts[at] ?? 0), (bends[i + 1] ?? 0) - (tops[at] ?? 0) + top);
    }
  });
  first[layout.bends.length] = corners.length;
  return { x, y, corners: Float32Array.from(corners), first, width: columns.width, height: heightOf(columns) };
}
