// Markdown as HTML. The server renders and sanitises it; what is asked for at once is asked together,
// but a long text by itself and last, so that nothing has to wait for it.

import { post } from "./api.js";

const KEPT = 2000;
const LONG = 20_000; // characters
const LONGEST = 50_000; // the server does not render a longer text either
const rendered = new Map();
const coming = new Map();
let wanted = [];

/** The HTML of a text; null when it is too long or the server cannot be reached, and the plain text has to do. */
export function html(text) {
  if (text.length > LONGEST) return Promise.resolve(null);
  if (rendered.has(text)) return Promise.resolve(rendered.get(text));
  if (!coming.has(text)) {
    coming.set(text, new Promise((resolve) => wanted.push({ text, resolve })));
    if (wanted.length === 1) queueMicrotask(askForAll);
  }
  return coming.get(text);
}

async function askForAll() {
  const short = wanted.filter(({ text }) => text.length <= LONG);
  const long = wanted.filter(({ text }) => text.length > LONG);
  wanted = [];
  if (short.length) await ask(short);
  for (const each of long) await ask([each]);
}

async function ask(asked) {
  try {
    const answer = await post("/api/markdown", { texts: asked.map(({ text }) => text) });
    asked.forEach(({ text }, index) => keep(text, answer.html[index]));
  } catch {
    // The plain text stays.
  }
  for (const { text, resolve } of asked) {
    coming.delete(text);
    resolve(rendered.get(text) ?? null);
  }
}

function keep(text, markup) {
  if (rendered.size >= KEPT) rendered.delete(rendered.keys().next().value);
  rendered.set(text, markup);
}

const showing = new WeakMap();

/** Show a text in an element: as HTML when it is there, plain until then. */
export function showMarkdown(element, text) {
  showing.set(element, text);
  fill(element, text, rendered.get(text) ?? null);
  if (rendered.has(text)) return;
  html(text).then((markup) => markup !== null && showing.get(element) === text && fill(element, text, markup));
}

function fill(element, text, markup) {
  element.classList.toggle("plain", markup === null);
  if (markup === null) element.textContent = text;
  else element.innerHTML = markup;
  // What may be too wide scrolls by itself, and has to be reachable with the keyboard for that.
  for (const wide of element.querySelectorAll("pre, table")) wide.tabIndex = 0;
}
