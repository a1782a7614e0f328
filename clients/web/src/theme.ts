/** Light, dark, or as the system is; and the colours of it, for what is drawn on a canvas. */

const KEY = 'remat-theme';
const NAMES = ['system', 'light', 'dark'];

const listeners = new Set<() => void>();
let colours = new Map<string, string>();

export function themeName(): string {
  return localStorage.getItem(KEY) ?? 'system';
}

function apply(): void {
  const name = themeName();
  const dark = name === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : name === 'dark';
  document.documentElement.dataset['theme'] = dark ? 'dark' : 'light';
  colours = new Map();
  for (const listener of listeners) listener();
}

export function startTheme(): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', apply);
  apply();
}

export function nextTheme(): string {
  const name = NAMES[(NAMES.indexOf(themeName()) + 1) % NAMES.length] ?? 'system';
  localStorage.setItem(KEY, name);
  apply();
  return name;
}

/** Calls listener when the colours change; returns how to stop. */
export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A colour of the style sheet: colour('ink') is --ink. */
export function colour(name: string): string {
  let value = colours.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    colours.set(name, value);
  }
  return value;
}
