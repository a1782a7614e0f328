/** Which part of a plane is seen: moved and zoomed by pointer, wheel and keys. */

interface Handlers {
  /** Coordinates on the plane. */
  hover: (x: number, y: number) => void;
  press: (x: number, y: number) => void;
}

const MARGIN = 12;
/** Below this scale names are not read. */
const READABLE = 0.6;

export class Camera {
  scale = 1;
  /** The plane's point in the upper left corner. */
  left = 0;
  top = 0;
  private viewWidth = 0;
  private viewHeight = 0;

  private width = 1;
  private height = 1;
  /** A point of the plane that is to be where a point of the canvas is. */
  private held: { x: number; y: number; atX: number; atY: number } | undefined;

  /** Gets another plane. Unless a point of it is held, everything is shown. */
  setPlane(width: number, height: number, held?: { x: number; y: number; atX: number; atY: number }): void {
    this.width = width;
    this.height = height;
    this.held = held;
    if (this.viewWidth > 0) this.aim();
  }

  /** Learns the size of the canvas. */
  resize(width: number, height: number): void {
    const first = this.viewWidth === 0;
    this.viewWidth = width;
    this.viewHeight = height;
    if (first) this.aim();
  }

  private aim(): void {
    this.fit();
    if (!this.held) return;
    const { x, y, atX, atY } = this.held;
    this.scale = Math.max(this.scale, READABLE);
    this.left = x - atX / this.scale;
    this.top = y - atY / this.scale;
    this.held = undefined;
  }

  /** Where a point of the plane is on the canvas. */
  seenAt(x: number, y: number): { atX: number; atY: number } {
    return { atX: (x - this.left) * this.scale, atY: (y - this.top) * this.scale };
  }

  /** Moves as little as brings a point of the plane into view. */
  reveal(x: number, y: number): void {
    const { atX, atY } = this.seenAt(x, y);
    const room = 40;
    this.left += (Math.min(0, atX - room) + Math.max(0, atX + room - this.viewWidth)) / this.scale;
    this.top += (Math.min(0, atY - room) + Math.max(0, atY + room - this.viewHeight)) / this.scale;
  }

  fit(): void {
    const scale = Math.min((this.viewWidth - 2 * MARGIN) / this.width, (this.viewHeight - 2 * MARGIN) / this.height);
    this.scale = Math.min(1.5, Math.max(scale, 1e-4));
    this.left = (this.width - this.viewWidth / this.scale) / 2;
    this.top = (this.height - this.viewHeight / this.scale) / 2;
  }

  /** Zooms around a point of the canvas, its centre if none is given. */
  zoom(factor: number, x = this.viewWidth / 2, y = this.viewHeight / 2): void {
    const scale = Math.min(8, Math.max(this.scale * factor, 1e-4));
    this.left += x / this.scale - x / scale;
    this.top += y / this.scale - y / scale;
    this.scale = scale;
  }

  move(dx: number, dy: number): void {
    this.left -= dx / this.scale;
    this.top -= dy / this.scale;
  }

  private key(key: string): boolean {
    const step = 60;
    if (key === 'ArrowLeft') this.move(step, 0);
    else if (key === 'ArrowRight') this.move(-step, 0);
    else if (key === 'ArrowUp') this.move(0, step);
    else if (key === 'ArrowDown') this.move(0, -step);
    else if (key === '+' || key === '=') this.zoom(1.25);
    else if (key === '-') this.zoom(0.8);
    else if (key === '0') this.fit();
    else return false;
    return true;
  }

  /** Lets the canvas be moved and zoomed; returns what undoes it. */
  control(canvas: HTMLCanvasElement, redraw: () => void, handlers: Handlers): () => void {
    const abort = new AbortController();
    const { signal } = abort;
    const pointers = new Map<number, PointerEvent>();
    let moved = 0;
    const plane = (event: MouseEvent): [number, number] => [
      this.left + event.offsetX / this.scale,
      this.top + event.offsetY / this.scale,
    ];
    const spread = () => {
      const [a, b] = [...pointers.values()];
      return a && b ? Math.hypot(a.offsetX - b.offsetX, a.offsetY - b.offsetY) : 0;
    };
    const down = (event: PointerEvent) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event);
      moved = 0;
    };
    const drag = (event: PointerEvent) => {
      const before = pointers.get(event.pointerId);
      if (!before) {
        handlers.hover(...plane(event));
        return;
      }
      const apart = spread();
      pointers.set(event.pointerId, event);
      const [dx, dy] = [event.offsetX - before.offsetX, event.offsetY - before.offsetY];
      moved += Math.abs(dx) + Math.abs(dy);
      if (pointers.size === 1) this.move(dx, dy);
      else if (apart > 0) this.zoom(spread() / apart, event.offsetX, event.offsetY);
      redraw();
    };
    const up = (event: PointerEvent) => {
      if (pointers.delete(event.pointerId) && moved < 4) handlers.press(...plane(event));
    };
    canvas.addEventListener('pointerdown', down, { signal });
    canvas.addEventListener('pointermove', drag, { signal });
    canvas.addEventListener('pointerup', up, { signal });
    canvas.addEventListener('pointercancel', (event) => pointers.delete(event.pointerId), { signal });
    canvas.addEventListener('pointerleave', () => handlers.hover(NaN, NaN), { signal });
    canvas.addEventListener(
      'wheel',
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
        redraw();
      },
      { signal, passive: false },
    );
    canvas.addEventListener(
      'keydown',
      (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || !this.key(event.key)) return;
        event.preventDefault();
        redraw();
      },
      { signal },
    );
    return () => abort.abort();
  }
}
