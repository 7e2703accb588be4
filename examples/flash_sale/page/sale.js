// The page itself: what Stockade exports is read from /metrics, everything else from /sale.

const halves = ['naive', 'stockade'];
const steps = [
  'naive: page views', 'naive: the sale is on', 'naive: audit',
  'stockade: page views', 'stockade: the sale is on', 'stockade: audit', 'done',
];
const byId = (id) => document.getElementById(id);

function count(value) {
  return value.toLocaleString('en-US', {maximumFractionDigits: 1});
}

function span(seconds) {
  if (Number.isNaN(seconds)) return '–';
  return seconds < 0.001 ? `${(seconds * 1e6).toFixed(1)} µs` : `${(seconds * 1e3).toFixed(2)} ms`;
}

function showPhase(phase) {
  byId('phase').textContent = phase;
  const at = steps.indexOf(phase);
  byId('steps').replaceChildren(...steps.map((step, i) => {
    const item = document.createElement('li');
    const [half, stage] = step.split(': ');
    item.textContent = (stage || step).replace('the sale is on', 'sale');
    if (stage !== undefined) item.className = half;
    if (i < at || phase === 'done') item.classList.add('past');
    if (i === at) item.setAttribute('aria-current', 'step');
    return item;
  }));
}

function showFigures(half, {stage, figures}) {
  for (const [figure, value] of Object.entries(figures)) {
    const cell = byId(`${half}-${figure}`);
    if (cell === null || stage === 'waits') continue;
    if (figure === 'queries_per_expiry') {
      cell.textContent = value.toFixed(2);
    } else {
      cell.textContent = figure.endsWith('_seconds') ? span(value) : count(value);
    }
  }
}

function bar(label, units, full, id) {
  const box = document.createElement('div');
  const share = Math.min(1, Math.max(0, units / full));
  box.innerHTML = `<b id="${id}"></b><span class="well"><span class="fill"></span></span><span></span>`;
  box.firstChild.textContent = count(units);
  box.lastChild.textContent = label;
  box.querySelector('.fill').style.height = `${share * 100}%`;
  return box;
}

function showShelf(sale) {
  const naive = bar('naive', sale.naive.figures.units_left, sale.stock, 'naive-left');
  naive.className = 'one';
  const shards = sale.shards || [];
  const even = sale.stock / (shards.length || 1);
  byId('bars').classList.toggle('many', shards.length > 16);
  byId('bars').replaceChildren(naive, ...shards.map((units, i) => bar(`${i + 1}`, units, even, `shard-${i}`)));
  if (sale.shards !== null) byId('shard-count').textContent = count(shards.length);
}

function showCharts(sale) {
  const lines = (figure, curve) => halves.map((half) => {
    const course = sale[half].course;
    return {half, ...curve(course.seconds, course[figure])};
  });
  drawLines(byId('chart-orders'), lines('orders', rates));
  drawLines(byId('chart-refusals'), lines('refusals', rates));
  drawLines(byId('chart-hot_queries'), lines('hot_queries', (xs, ys) => ({xs, ys})));
}

function showMetrics(samples) {
  for (const element of document.querySelectorAll('[data-metric]')) {
    const {metric, quantile: share} = element.dataset;
    element.textContent = share === undefined ? count(sum(select(samples, metric))) :
                                                span(quantile(samples, metric, Number(share)));
  }
}

function show(sale, metrics) {
  for (const element of document.querySelectorAll('[data-sale]')) {
    const value = sale[element.dataset.sale];
    element.textContent = element.dataset.sale === 'product' ? value : count(value);
  }
  showPhase(sale.phase);
  for (const half of halves) showFigures(half, sale[half]);
  showShelf(sale);
  showCharts(sale);
  showMetrics(parseMetrics(metrics));
}

async function run() {
  let answers = null;
  try {
    answers = await Promise.all([
      fetch('sale').then((answer) => answer.json()),
      fetch('metrics').then((answer) => answer.text()),
    ]);
  } catch (error) {
    byId('phase').textContent = 'the program has ended';
  }
  setTimeout(run, 500);
  if (answers !== null) show(...answers);
}

run();
