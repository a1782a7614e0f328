/** What a colour means. */

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { colour, onTheme } from './theme';

/** ink: a colour of the style sheet, or what gives one, asked again when the theme changes. */
export function Key({ name, ink }: { name: ComponentChildren; ink: string | (() => string) }): VNode {
  const swatch = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const paint = () => {
      if (swatch.current) swatch.current.style.background = typeof ink === 'string' ? colour(ink) : ink();
    };
    paint();
    return onTheme(paint);
  }, [ink]);
  return (
    <span class="key">
      <span ref={swatch} class="swatch" /> {name}
    </span>
  );
}
