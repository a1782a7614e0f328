/** The part of the axis that the charts of a schedule show together, the operation that is looked
 * at, the one under the pointer, the stretch that is selected and the nodes that are searched for. */

import { bytesOf, DROP, nodeOf, operationAt, spansOn, type Axis, type Replay, type Spans } from './replay';
import { Stretch } from './stretch';

export class SpanView extends Stretch {
  axis: Axis;
  step: number;
  hover = -1;
  /** Where the pointer is over the charts, and the value or the band of the stack under it (-1: none). */
  pointer = { x: 0, width: 0, value: -1, band: -1 };
  /** Two places on the axis. */
  selection: [number, number] | undefined;
  /** By node, what was searched for. */
  found: boolean[] | undefined;
  foundBytes: Float64Array | undefined;
  /** By operation, the node that it is of. */
  readonly nodes: number[];
  /** As memory sees operations. */
  spans: Spans;

  constructor(
    readonly replay: Replay,
    axis: Axis,
    /** -1: none is looked at. */
    step: number,
    /** The end of the axis, where it is not the schedule's own. */
    private readonly until = 0,
  ) {
    super();
    this.axis = axis;
    this.nodes = Array.from({ length: replay.n }, (_, i) => nodeOf(replay, i));
    this.step = Math.min(replay.n - 1, step);
    this.spans = spansOn(replay, axis, false);
    this.to = this.end;
  }

  get end(): number {
    return Math.max(this.axis === 'time' ? this.replay.makespan : this.replay.n, this.until, 1e-9);
  }

  get least(): number {
    return this.end / Math.max(1000, this.replay.n * 2);
  }

  setAxis(axis: Axis): void {
    this.axis = axis;
    this.spans = spansOn(this.replay, axis, false);
    this.selection = undefined;
    this.all();
  }

  select(from: number, to: number): void {
    this.selection =
      from === to ? undefined : [Math.max(0, Math.min(from, to)), Math.min(this.end, Math.max(from, to))];
    this.tell();
  }

  find(found: boolean[] | undefined): void {
    this.found = found;
    this.foundBytes = found && bytesOf(this.replay, found);
    this.tell();
  }

  /** Goes to the next operation after the present one, and not a drop, of a node for which wanted is
   * true; round the end. */
  goTo(wanted: (node: number) => boolean): void {
    for (let by = 1; by <= this.replay.n; by++) {
      const i = (this.step + by) % this.replay.n;
      const node = this.nodes[i] ?? -1;
      if (node < 0 || !wanted(node) || this.replay.acts[i] === DROP) continue;
      this.setStep(i);
      return;
    }
  }

  setStep(step: number): void {
    this.step = Math.max(0, Math.min(this.replay.n - 1, step));
    this.reveal();
    this.tell();
  }

  setHover(operation: number, pointer = this.pointer): void {
    this.hover = operation;
    this.pointer = pointer;
    this.tell();
  }

  /** Moves so that the operation looked at is seen. */
  private reveal(): void {
    const at = this.spans.from[this.step] ?? 0;
    const end = this.spans.to[this.step] ?? at;
    if (at >= this.from && end <= this.to) return;
    const half = (this.to - this.from) / 2;
    this.show(at - half, at + half);
  }

  operationAt(position: number, width: number): number {
    return operationAt(this.spans, this.value(position, width));
  }
}
