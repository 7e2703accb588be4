// The page itself. All of it is read from /sale. POST /sales starts a sale.

const halves = ['naive', 'stockade'];
const names = {naive: 'naive', stockade: 'Stockade'};
const steps = ['naive: the sale is on', 'naive: audit', 'stockade: the sale is on', 'stockade: audit', 'done'];

function showPhase(phase) {
  setText(byId('phase'), phase.replace('waits', 'the servers start'));
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
    const value = figures[cell.id.slice(half.length + 1)];
    setText(cell, value === undefined || stage === 'waits' ? '–' : count(value));
  }
}

function showEvents(half, events) {
  const list = byId(`${half}-events`);
  if (list.children.length > events.length) list.replaceChildren();
  for (const {seconds, text} of events.slice(list.children.length)) {
    const item = document.createElement('li');
    const time = document.createElement('b');
    time.textContent = `${seconds.toFixed(1)} s`;
    item.append(time, text);
    list.append(item);
  }
}

function showSegments(sale) {
  const bars = [];
  for (const half of halves) {
    const segments = sale[half].segments;
    const full = sale.stock / (segments.length || 1);
    segments.forEach(({name, units, at_node}, i) => {
      const box = bar(at_node === null ? name : `${name}: ${count(at_node)}`, units, full, `${half}-segment-${i}`);
      if (half === 'naive') box.className = 'of-naive';
      if (i === 0 && half === 'stockade') box.classList.add('first');
      bars.push(box);
    });
  }
  byId('bars').replaceChildren(...bars);
  const words = halves.map((half) => `${names[half]} ${sale[half].segments.map(({name, units}) => `${name} ${count(units)}`).join(', ')}`);
  describe(byId('bars'), `Units left of ${count(sale.stock)}: ${words.join('; ')}`);
}

const charts = [
  {figure: 'sold', title: 'Buyers that have bought', curve: (xs, ys) => ({xs, ys}), marks: true},
  {figure: 'answered', title: 'Answers a second', curve: rates, marks: false},
];

function showCharts(sale) {
  for (const {figure, title, curve, marks} of charts) {
    const lines = halves.map((half) => ({
      half,
      ...curve(sale[half].course.seconds, sale[half].course[figure]),
      marks: marks ? sale[half].events.map(({seconds}) => seconds) : [],
    }));
    const chart = byId(`chart-${figure}`);
    drawLines(chart, lines);
    const words = lines.map(({half, ys}) => ys.length === 0 ? `${names[half]} none yet` :
                                                               `${names[half]} now ${count(Math.round(ys.at(-1)))}`);
    describe(chart, `${title}: ${words.join('; ')}`);
  }
}

function show(sale) {
  for (const element of document.querySelectorAll('[data-sale]')) setText(element, count(sale[element.dataset.sale]));
  showPhase(sale.phase);
  showNumber(sale);
  for (const half of halves) {
    showFigures(half, sale[half]);
    showEvents(half, sale[half].events);
  }
  showSegments(sale);
  showCharts(sale);
}

async function run() {
  try {
    show(await fetch('sale').then((answer) => answer.json()));
  } catch (error) {
    setText(byId('phase'), 'the program has ended');
    allowStart(false);
  }
  setTimeout(run, 500);
}

run();
