"""A scatter plot of a comparison, as SVG."""

from __future__ import annotations

import math
from typing import List, Sequence, Tuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 800, 420, 70, 50, 20, 280

# told apart by those who see few colours too (Okabe and Ito)
COLORS = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7")


def svg(points: Sequence[Tuple[str, int, float]]) -> str:
    """Points are (name, bytes, seconds)."""
    unit, size = _unit(max(b for _, b, _ in points))
    xs, ys = [b / size for _, b, _ in points], [1e3 * s for _, _, s in points]
    x_ticks, y_ticks = _ticks(max(xs)), _ticks(max(ys))

    def at(x: float, y: float) -> Tuple[float, float]:
        return (LEFT + (WIDTH - LEFT - RIGHT) * x / x_ticks[-1], HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * y / y_ticks[-1])

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
             f'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for x in x_ticks:
        (px, bottom), (_, top) = at(x, 0), at(x, y_ticks[-1])
        parts.append(f'<path d="M{px:.1f} {bottom:.1f}V{top:.1f}" stroke="#ddd"/>'
                     f'<text x="{px:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{x:g}</text>')
    for y in y_ticks:
        (left, py), (right, _) = at(0, y), at(x_ticks[-1], y)
        parts.append(f'<path d="M{left:.1f} {py:.1f}H{right:.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 8:.1f}" y="{py + 4:.1f}" text-anchor="end">{y:g}</text>')
    for i, ((name, _, _), x, y) in enumerate(zip(points, xs, ys)):
        px, py = at(x, y)
        color = COLORS[i % len(COLORS)]
        key_x, key_y = WIDTH - RIGHT + 24, TOP + 10 + 20 * i
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="5" fill="{color}"/>'
                     f'<rect x="{key_x}" y="{key_y - 9}" width="10" height="10" fill="{color}"/>'
                     f'<text x="{key_x + 18}" y="{key_y}">{escape(name)}</text>')
    middle, bottom = at(x_ticks[-1] / 2, 0)
    parts.append(f'<text x="{middle:.1f}" y="{bottom + 40:.1f}" text-anchor="middle">measured peak, {unit}</text>'
                 f'<text x="16" y="{HEIGHT / 2:.1f}" text-anchor="middle" transform="rotate(-90 16 {HEIGHT / 2:.1f})">'
                 'step, ms</text></svg>')
    return "\n".join(parts) + "\n"


def _unit(largest: float) -> Tuple[str, float]:
    for unit, size in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if largest >= size:
            return unit, size
    return "bytes", 1.0


def _ticks(largest: float) -> List[float]:
    """From 0, in steps of 1, 2 or 5 times a power of ten, past the largest."""
    power = 10.0 ** math.floor(math.log10(max(largest, 1e-9) / 4))
    step = next(power * k for k in (1, 2, 5, 10) if power * k * 5 >= largest)
    return [step * i for i in range(math.ceil(largest / step) + 1)]
