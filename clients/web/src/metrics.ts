/** The Prometheus text format, as far as rematd writes it. */

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export function readMetrics(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split('\n')) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!found) continue;
    const [, name = '', inside = '', value] = found;
    const labels = Object.fromEntries([...inside.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, of]) => [label, of]));
    samples.push({ name, labels, value: Number(value) });
  }
  return samples;
}
