// The page itself: what Stockade exports is read from /metrics, everything else from /sale. POST /sales starts a sale.

const halves = ['naive', 'stockade'];
const steps = [
  'naive: page views', 'naive: the sale is on', 'naive: audit',
  'stockade: page views', 'stockade: the sale is on', 'stockade: audit', 'done',
];
function showPhase(phase) {
  setText(byId('phase'), phase);
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
  for (const cell of document.querySelectorAll(`td[id^="${half}-"]`)) {
    const figure = cell.id.slice(half.length + 1);
    const value = figures[figure];
    if (value === undefined || stage === 'waits') {
      cell.textContent = '–';
      continue;
    }
    if (figure === 'queries_per_expiry') {
      cell.textContent = value.toFixed(2);
    } else {
      cell.textContent = figure.endsWith('_seconds') ? span(value) : count(value);
    }
  }
}

function showShelf(sale) {
  const naive = bar('naive', sale.naive.figures.units_left, sale.stock, 'naive-left');
  naive.className = 'one';
  const shards = sale.shards || [];
  const even = sale.stock / (shards.length || 1);
  byId('bars').classList.toggle('many', shards.length > 16);
  byId('bars').replaceChildren(naive, ...shards.map((units, i) => bar(`${i + 1}`, units, even, `shard-${i}`)));
  if (sale.shards !== null) setText(byId('shard-count'), count(shards.length));
  const left = shards.reduce((total, units) => total + units, 0);
  const stockade = sale.shards === null ? 'closed for the audit' : `${count(left)} in ${count(shards.length)} shards`;
  describe(byId('bars'), `Units left of ${count(sale.stock)}: naive ${count(sale.naive.figures.units_left)}; Stockade ${stockade}`);
}

const charts = [
  {figure: 'orders', title: 'Orders a second', curve: rates},
  {figure: 'refusals', title: '“Sold out” answers a second', curve: rates},
  {figure: 'hot_queries', title: "Database queries for the sale's page so far", curve: (xs, ys) => ({xs, ys})},
];

function showCharts(sale) {
  for (const {figure, title, curve} of charts) {
    const lines = halves.map((half) => ({half, ...curve(sale[half].course.seconds, sale[half].course[figure])}));
    const chart = byId(`chart-${figure}`);
    drawLines(chart, lines);
    const words = lines.map(({half, ys}) => {
      const name = half === 'naive' ? half : 'Stockade';
      return ys.length === 0 ? `${name} none yet` : `${name} at most ${count(Math.round(Math.max(...ys)))}, now ${count(Math.round(ys.at(-1)))}`;
    });
    describe(chart, `${title}: ${words.join('; ')}`);
  }
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
  showNumber(sale);
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
    setText(byId('phase'), 'the program has ended');
    allowStart(false);
  }
  setTimeout(run, 500);
  if (answers !== null) show(...answers);
}

run();
