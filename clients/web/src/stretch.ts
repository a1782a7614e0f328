/** The part of an axis that charts show together. */

/** Room for labels left of every chart, and right of it. */
export const GUTTER = 84;
export const RIGHT = 10;

export abstract class Stretch {
  from = 0;
  to = 0;
  private readonly listeners = new Set<() => void>();

  abstract get end(): number;
  /** The shortest part that is shown. */
  abstract get least(): number;

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  protected tell(): void {
    for (const listener of this.listeners) listener();
  }

  show(from: number, to: number): void {
    const length = Math.min(this.end, Math.max(this.least, to - from));
    this.from = Math.max(0, Math.min(this.end - length, from));
    this.to = this.from + length;
    this.tell();
  }

  all(): void {
    this.show(0, this.end);
  }

  zoom(factor: number, around = (this.from + this.to) / 2): void {
    this.show(around - (around - this.from) / factor, around + (this.to - around) / factor);
  }

  move(fraction: number): void {
    const by = (this.to - this.from) * fraction;
    this.show(this.from + by, this.to + by);
  }

  /** Where x is in a chart of a width, and back. */
  position(x: number, width: number): number {
    return GUTTER + ((x - this.from) / (this.to - this.from)) * (width - GUTTER - RIGHT);
  }

  value(position: number, width: number): number {
    return this.from + ((position - GUTTER) / (width - GUTTER - RIGHT)) * (this.to - this.from);
  }
}

/** Wheel and keys move and zoom. The wheel zooms only where the charts have the focus, or with Ctrl: else the page scrolls. */
export function steer<V extends Stretch>(
  element: HTMLElement,
  view: V,
  keys: Record<string, (view: V) => void>,
  signal: AbortSignal,
): void {
  const wheel = (event: WheelEvent) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.ctrlKey && !element.contains(document.activeElement)) return;
    event.preventDefault();
    const at = event.clientX - element.getBoundingClientRect().left;
    if (sideways) view.move(event.deltaX / element.clientWidth);
    else view.zoom(Math.exp(-event.deltaY * 0.002), view.value(at, element.clientWidth));
  };
  const key = (event: KeyboardEvent) => {
    const does = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!does || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    does(view);
  };
  element.addEventListener('dblclick', () => view.all(), { signal });
  element.addEventListener('wheel', wheel, { signal, passive: false });
  element.addEventListener('keydown', key, { signal });
}
