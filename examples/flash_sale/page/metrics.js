// Prometheus' text format, as far as Stockade writes it: [{name, labels, value}].
function parseMetrics(text) {
  const samples = [];
  for (const line of text.split('\n')) {
    const parts = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (parts === null) continue;
    samples.push({name: parts[1], labels: parseLabels(parts[2] || ''), value: Number(parts[3].replace('Inf', 'Infinity'))});
  }
  return samples;
}

function parseLabels(text) {
  const labels = {};
  for (const [, label, value] of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[label] = value;
  return labels;
}

// `selector`: name{label="value",...}, as in a query: the samples that have these labels, whatever others they have.
function select(samples, selector, suffix = '') {
  const [, name, labels] = /^(\w+)(?:\{(.*)\})?$/.exec(selector);
  const wanted = Object.entries(parseLabels(labels || ''));
  return samples.filter((s) => s.name === name + suffix && wanted.every(([label, value]) => s.labels[label] === value));
}

function sum(samples) {
  return samples.reduce((total, sample) => total + sample.value, 0);
}

// As Prometheus' histogram_quantile(): within its bucket the value is taken to be evenly spread. NaN where there is none.
function quantile(samples, selector, share) {
  const counts = new Map();
  for (const s of select(samples, selector, '_bucket')) {
    const bound = s.labels.le === '+Inf' ? Infinity : Number(s.labels.le);
    counts.set(bound, (counts.get(bound) || 0) + s.value);
  }
  const bounds = [...counts.keys()].sort((a, b) => a - b);
  const rank = share * (counts.get(Infinity) || 0);
  if (rank === 0) return NaN;
  const at = bounds.findIndex((bound) => counts.get(bound) >= rank);
  if (bounds[at] === Infinity) return bounds[at - 1];
  const lower = at > 0 ? bounds[at - 1] : 0;
  const below = at > 0 ? counts.get(lower) : 0;
  return lower + (bounds[at] - lower) * (rank - below) / (counts.get(bounds[at]) - below);
}
