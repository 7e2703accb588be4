// Lines over the seconds of a half, one for each half.

const svgNamespace = 'http://www.w3.org/2000/svg';
const chart = {right: 372, top: 14, bottom: 170};

function draw(svg, tag, attributes, text) {
  const element = document.createElementNS(svgNamespace, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  svg.append(element);
  return element;
}

// Moves the label to below those that it would cover.
function separate(label, others) {
  const box = label.getBBox();
  for (const other of others) {
    const its = other.getBBox();
    if (box.x >= its.x + its.width || its.x >= box.x + box.width) continue;
    if (box.y >= its.y + its.height || its.y >= box.y + box.height) continue;
    label.setAttribute('y', Number(label.getAttribute('y')) + its.y + its.height - box.y);
    box.y = its.y + its.height;
  }
}

// The least of 1, 2, 4, 5, 10, 20, ... that is not below.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 4, 5, 10].find((step) => step * power >= value);
}

// `lines`: [{half, xs, ys, marks}]; `marks`, which may be left out, are moments to be marked on the line.
function drawLines(svg, lines) {
  const most = (of) => Math.max(...lines.flatMap(of), 1);
  const xEnd = most((line) => line.xs);
  const yEnd = roundUp(most((line) => line.ys));
  const y = (value) => chart.bottom - (chart.bottom - chart.top) * value / yEnd;
  svg.replaceChildren();
  const values = [0, yEnd / 2, yEnd];
  const labels = values.map((value) => draw(svg, 'text', {y: y(value) + 4, 'text-anchor': 'end'}, count(value)));
  const left = 10 + Math.max(...labels.map((label) => label.getComputedTextLength()));
  for (const label of labels) label.setAttribute('x', left - 6);
  for (const value of values) draw(svg, 'line', {class: 'grid', x1: left, x2: chart.right, y1: y(value), y2: y(value)});
  const x = (seconds) => left + (chart.right - left) * seconds / xEnd;
  const xStep = roundUp(xEnd / 5);
  for (let seconds = 0; seconds <= xEnd; seconds += xStep) {
    const anchor = x(seconds) > chart.right - 30 ? 'end' : 'middle';
    draw(svg, 'text', {x: x(seconds), y: chart.bottom + 15, 'text-anchor': anchor}, `${count(seconds)} s`);
  }
  for (const {half, xs, ys} of lines) {
    draw(svg, 'polyline', {class: half, points: xs.map((s, i) => `${x(s).toFixed(1)},${y(ys[i]).toFixed(1)}`).join(' ')});
  }
  const peaks = [];
  for (const {half, xs, ys, marks = []} of lines) {
    for (const mark of marks) {
      const i = xs.findIndex((seconds) => seconds >= mark);
      if (i >= 0) draw(svg, 'circle', {class: half, cx: x(xs[i]), cy: y(ys[i]), r: 3});
    }
    const top = Math.max(...ys, 0);
    if (top === 0) continue;
    const at = x(xs[ys.indexOf(top)]);
    const anchor = at > chart.right - 60 ? 'end' : 'middle';
    const place = {class: `peak ${half}`, x: at, y: y(top) - 4, 'text-anchor': anchor};
    const peak = draw(svg, 'text', place, count(Math.round(top)));
    separate(peak, peaks);
    peaks.push(peak);
  }
}

// What a cumulative figure grew by a second, over windows that smooth what a busy machine makes of single samples.
function rates(xs, ys) {
  const window = Math.max(0.4, (xs.at(-1) || 0) / 80);
  const line = {xs: [], ys: []};
  let from = 0;
  for (let i = 0; i < xs.length; ++i) {
    while (from + 1 < i && xs[i] - xs[from + 1] >= window) ++from;
    if (xs[i] - xs[from] < window) continue;
    line.xs.push(xs[i]);
    line.ys.push((ys[i] - ys[from]) / (xs[i] - xs[from]));
  }
  return line;
}
