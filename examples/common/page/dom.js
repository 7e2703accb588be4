'use strict';

// What the pages share: elements by their ids, figures as text, and bars of units.

const byId = (id) => document.getElementById(id);

function count(value) {
  return value.toLocaleString('en-US', {maximumFractionDigits: 1});
}

function span(seconds) {
  if (Number.isNaN(seconds)) return '–';
  return seconds < 0.001 ? `${(seconds * 1e6).toFixed(1)} µs` : `${(seconds * 1e3).toFixed(2)} ms`;
}

// A live region is announced when its text is set, so an equal text is left alone.
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Charts are pictures to a screen reader: their label says what they show.
function describe(element, text) {
  if (element.getAttribute('aria-label') !== text) element.setAttribute('aria-label', text);
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

