// The page of examples/flash_sale --serve or examples/fleet_sale --serve in Chromium, at several widths, in light or dark:
// axe finds nothing, nothing overflows or collides, also with the largest figures, texts and lines of charts have enough
// contrast, charts are described, and the keyboard starts a sale.
//
//   check_page.mjs --check              says "ready"
//   check_page.mjs PROGRAM [PICTURES]   exit status 1 if something is wrong; PICTURES: a folder for screenshots

import {spawn} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {basename, join} from 'node:path';
import {chromium} from 'playwright-core';

// Whether something overflows depends on the width, whether a colour is faint on the scheme.
const viewed = [[320, 'light'], [375, 'dark'], [768, 'light'], [1280, 'dark']];
const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
// By the program's name: its arguments, the charts and links of its page, and the seconds of its slow sale.
const pages = {
  flash_sale: {
    argv: (dir) => ['--dir', dir, '--seconds', '3', '--stock', '2000', '--buyers', '4000', '--viewers', '8'],
    charts: 4,
    links: 5,
    slow: 10,
  },
  fleet_sale: {argv: () => ['--seconds', '3', '--stock', '1000', '--buyers', '4000'], charts: 3, links: 1, slow: 20},
};
const faults = [];
const checked = [];

function demand(holds, what) {
  if (!holds) faults.push(what);
}

// Runs in the page: what sticks out of the window, or out of its own box.
function findOverflow() {
  const wide = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) wide.push(`the page is ${root.scrollWidth} px wide`);
  for (const element of document.body.querySelectorAll('*:not(svg *)')) {
    const box = element.getBoundingClientRect();
    if (box.width === 0) continue;
    const text = element.textContent.trim().slice(0, 30);
    const name = `${element.tagName.toLowerCase()}#${element.id} "${text}"`;
    if (box.right > root.clientWidth + 0.5 || box.left < -0.5) wide.push(`${name} ends at ${box.right} px`);
    if (element.tagName !== 'SELECT' && element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1) {
      wide.push(`${name} holds ${element.scrollWidth} px in ${element.clientWidth} px`);
    }
  }
  for (const text of document.querySelectorAll('svg text')) {
    const box = text.getBoundingClientRect(), around = text.ownerSVGElement.getBoundingClientRect();
    if (box.left < around.left - 1 || box.right > around.right + 1) wide.push(`"${text.textContent}" leaves its chart`);
    for (const other of text.ownerSVGElement.querySelectorAll('text')) {
      const its = other.getBoundingClientRect();
      if (other === text || (other.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_PRECEDING) !== 0) continue;
      if (box.left < its.right - 1 && its.left < box.right - 1 && box.top < its.bottom - 4 && its.top < box.bottom - 4) {
        wide.push(`"${text.textContent}" collides with "${other.textContent}"`);
      }
    }
  }
  return wide;
}

// Runs in the page: texts below a contrast of 4.5, also those that axe cannot measure, which are the texts of charts and
// single digits; lines and bars below 3.
function findLowContrast() {
  const channels = (color) => color.match(/[\d.]+/g).map(Number);
  const linear = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const luminance = (color) => {
    const [r, g, b] = channels(color).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };
  const ground = (element) => {
    for (let at = element; at !== null; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (channels(color)[3] !== 0) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const low = new Set();
  const require = (element, color, least) => {
    const found = contrast(color, ground(element));
    if (found < least) low.add(`${element.tagName} ${element.getAttribute('class')}: ${found.toFixed(2)}`);
  };
  for (const element of document.body.querySelectorAll('*:not(script)')) {
    if (![...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== '')) continue;
    const style = getComputedStyle(element);
    require(element, element.tagName === 'text' ? style.fill : style.color, 4.5);
  }
  for (const line of document.querySelectorAll('svg polyline')) require(line, getComputedStyle(line).stroke, 3);
  for (const fill of document.querySelectorAll('.fill')) {
    require(fill.parentElement, getComputedStyle(fill).backgroundColor, 3);
  }
  return [...low];
}

async function check({width, scheme, page}, state) {
  const where = `${width} px, ${scheme}, ${state}`;
  const found = [];
  await page.evaluate(axeSource);
  const result = await page.evaluate(() => axe.run(document, {resultTypes: ['violations', 'incomplete']}));
  for (const kind of ['violations', 'incomplete']) {
    for (const {id, nodes} of result[kind]) {
      if (kind === 'incomplete' && id === 'color-contrast') continue;  // findLowContrast() measures these.
      for (const node of nodes) {
        found.push(`axe, ${kind}: ${id}: ${node.target.join(' ')}: ${node.failureSummary.replaceAll('\n', ' ')}`);
      }
    }
  }
  for (const text of await page.evaluate(findOverflow)) found.push(`overflow: ${text}`);
  for (const text of await page.evaluate(findLowContrast)) found.push(`contrast: ${text}`);
  for (const text of found) faults.push(`${where}: ${text}`);
  checked.push(`${where}: ${result.passes.length} rules of axe pass, ${found.length} faults`);
}

// Charts say their figures in words.
async function checkDescriptions(page, charts) {
  const labels = await page.$$eval('svg, #bars', (all) => all.map((chart) => [chart.role, chart.ariaLabel]));
  demand(labels.length === charts, `${labels.length} charts`);
  for (const [role, label] of labels) {
    demand(role === 'img' && /naive .*\d.*; Stockade .*\d/.test(label), `a chart is ${role}: ${label}`);
  }
}

async function checkLinks(page, least) {
  const links = await page.$$eval('nav a', (all) => all.map((link) => link.href));
  demand(links.length >= least, `${links.length} links`);
  for (const link of links) {
    const status = await page.evaluate((url) => fetch(url).then((answer) => answer.status), link);
    demand(status === 200, `${link} answers ${status}`);
  }
}

const button = (page) => page.locator('#start-button');

const focused = (page) => page.evaluate(() => document.activeElement.id);

const awaitNumber = (page, number) =>
  page.waitForFunction((n) => document.getElementById('number').textContent === `${n}`, number);

async function awaitEnd(page, number) {
  await awaitNumber(page, number);
  await page.waitForFunction(() => document.getElementById('phase').textContent === 'done' &&
                                   document.getElementById('start-button').ariaDisabled === 'false');
}

// Tab to the choice of the speed, a letter of it, and on to the button.
async function startWithKeyboard(page, letter) {
  for (let i = 0; i < 20 && await focused(page) !== 'speed'; ++i) await page.keyboard.press('Tab');
  demand(await focused(page) === 'speed', 'Tab does not reach the speed');
  await page.keyboard.press(letter);
  await page.keyboard.press('Tab');
  demand(await focused(page) === 'start-button', 'Tab does not reach the button');
  await page.keyboard.press('Enter');
}

async function openViews(browser, url) {
  const views = [];
  for (const [width, scheme] of viewed) {
    const context = await browser.newContext({viewport: {width, height: 800}, colorScheme: scheme});
    const page = await context.newPage();
    page.setDefaultTimeout(600_000);  // A busy machine may need minutes.
    page.on('pageerror', (error) => faults.push(`${width} px: ${error}`));
    page.on('console', (said) => said.type() === 'error' && faults.push(`${width} px: ${said.text()}`));
    await page.goto(url);
    await page.waitForFunction(() => document.getElementById('phase').textContent !== 'connecting');
    views.push({width, scheme, page});
  }
  return views;
}

async function checkAll(views, state, pictures) {
  for (const view of views) {
    await check(view, state);
    if (pictures === undefined) continue;
    await view.page.screenshot({path: join(pictures, `${state}-${view.width}-${view.scheme}.png`), fullPage: true});
  }
}

// The page with figures as large as they get, and peaks of both halves in one place.
async function checkLargest(views, pictures) {
  for (const {page} of views) {
    const sale = await page.evaluate(() => fetch('sale').then((answer) => answer.json()));
    for (const figure of ['stock', 'buyers']) sale[figure] = 1_000_000;
    for (const half of ['naive', 'stockade']) {
      const {course, figures} = sale[half];
      course.seconds = [...Array(30).keys()];
      for (const name of Object.keys(course)) {
        if (name !== 'seconds') course[name] = course.seconds.map((i) => 25_000 * i + (i > 14 ? 150_000 : 0));
      }
      for (const segment of sale[half].segments ?? []) Object.assign(segment, {units: 33_334, at_node: 33_334});
      for (const name of Object.keys(figures)) {
        if (!name.endsWith('_seconds') && name !== 'queries_per_expiry') figures[name] = 1_000_000;
      }
    }
    await page.route('**/sale', (route) => route.fulfill({json: sale}));
    await page.waitForFunction(() => document.body.textContent.includes('1,000,000'));
  }
  await checkAll(views, 'largest', pictures);
  for (const {page} of views) await page.unroute('**/sale');
}

async function checkSales(kind, views, pictures) {
  const {page} = views[0];
  for (const view of views) await awaitEnd(view.page, 1);
  await checkAll(views, 'done', pictures);
  await checkDescriptions(page, kind.charts);
  await checkLinks(page, kind.links);

  await startWithKeyboard(page, 's');  // "slow".
  await awaitNumber(page, 2);
  await page.waitForFunction(() => document.getElementById('start-button').textContent === 'A sale is running');
  // The answer to the click may come after the sale's own figures.
  await page.waitForFunction(() => document.getElementById('notice').textContent.startsWith('sale 2'));
  demand(await focused(page) === 'start-button', 'the button has lost the focus');
  await page.keyboard.press('Enter');  // Does nothing while the sale runs.
  await page.waitForFunction(() => document.getElementById('phase').textContent === 'naive: the sale is on');
  const slow = await page.evaluate(() => fetch('sale').then((answer) => answer.json()));
  demand(slow.arrival_seconds === kind.slow, `the slow sale's buyers arrive over ${slow.arrival_seconds} s`);
  await checkAll(views, 'running', pictures);
  await awaitEnd(page, 2);
  demand(await page.locator('#stockade-oversold').textContent() === '0', 'the second sale is not audited');
  await checkLargest(views, pictures);

  await page.locator('#speed').selectOption('0');
  await button(page).click();
  await awaitNumber(page, 3);
}

function startProgram(program, argv) {
  const demo = spawn(program, ['--serve', '--port', '0', ...argv], {stdio: ['ignore', 'pipe', 'inherit']});
  const ended = new Promise((resolve) => demo.once('exit', resolve));
  const url = new Promise((resolve, reject) => {
    let said = '';
    demo.stdout.setEncoding('utf8');
    demo.stdout.on('data', (text) => {
      said += text;
      const match = /^page: (\S+)$/m.exec(said);
      if (match !== null) resolve(match[1]);
    });
    demo.once('error', reject);
    ended.then(() => reject(new Error(`the program has ended: ${said}`)));
  });
  return {demo, ended, url};
}

async function run(program, pictures) {
  const work = mkdtempSync(join(tmpdir(), 'page-check-'));
  const kind = pages[basename(program)];
  const {demo, ended, url} = startProgram(program, kind.argv(join(work, 'run')));
  let browser = null;
  try {
    const address = await url;
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
             '--disable-component-update', '--disable-sync', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
    });
    await checkSales(kind, await openViews(browser, address), pictures);
  } finally {
    if (browser !== null) await browser.close();
    demo.kill();
    await ended;
    rmSync(work, {recursive: true, force: true});
  }
}

const [program, pictures] = process.argv.slice(2);
if (program === '--check') {
  console.log('ready');
} else {
  await run(program, pictures).catch((error) => faults.push(`the check could not go on: ${error.stack}`));
  for (const line of checked) console.log(line);
  for (const fault of faults) console.error(`FAULT: ${fault}`);
  process.exitCode = faults.length === 0 ? 0 : 1;
}
