/** Numbers as people read them: three digits that count. */

function digits(value: number): string {
  const magnitude = Math.abs(value);
  return value.toFixed(magnitude >= 100 || value === 0 ? 0 : magnitude >= 10 ? 1 : 2);
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return unit === 0 ? `${value} B` : `${digits(value)} ${units[unit]}`;
}

/** Bytes, or the slots of the pebble model. */
export function amount(value: number, pebbles = false): string {
  return pebbles ? `${value} ${value === 1 ? 'slot' : 'slots'}` : bytes(value);
}

/** A time in a profile's unit, in the unit in which it is easiest to read. */
export function time(value: number, unit: string): string {
  const powers = ['ns', 'us', 'ms', 's'];
  let at = powers.indexOf(unit);
  if (at < 0) return `${Number(value.toPrecision(6))} ${unit}`;
  while (Math.abs(value) >= 1000 && at < powers.length - 1) {
    value /= 1000;
    at++;
  }
  while (value !== 0 && Math.abs(value) < 1 && at > 0) {
    value *= 1000;
    at--;
  }
  return `${Number(value.toPrecision(4))} ${powers[at] ?? ''}`;
}

/** A name in so many characters: cut in its middle, for names of layers differ at their ends. */
export function shortened(name: string, most: number): string {
  const kept = Math.max(2, most) - 1;
  return name.length <= most ? name : `${name.slice(0, Math.ceil(kept / 2))}…${name.slice(name.length - Math.floor(kept / 2))}`;
}

export function percent(fraction: number): string {
  return `${digits(fraction * 100)} %`;
}

export function count(value: number): string {
  return value.toLocaleString('en');
}

export function when(text: string): string {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toISOString().slice(0, 19).replace('T', ' ');
}

export function seconds(value: number): string {
  return time(value, 's');
}
