// The difference of two texts, side by side where there is room for it.

import { h } from "./dom.js";
import { visible } from "./visible.js";

const CONTEXT = 3;
const MOST_STEPS = 600; // beyond so many differences, all of the middle counts as changed

export function diffView(path, before, after, isNew) {
  const blocks = changes(lines(before), lines(after));
  const added = sum(blocks, (block) => block.added.length);
  const removed = sum(blocks, (block) => block.removed.length);
  return h(
    "figure",
    { class: `diff${isNew || !before ? " one-sided" : ""}`, "aria-label": `Change of ${path}` },
    h(
      "figcaption",
      {},
      h("code", {}, visible(path)),
      isNew && h("span", { class: "tag" }, "new file"),
      h(
        "span",
        { class: "counts" },
        h("span", { class: "plus" }, `+${added}`),
        h("span", { class: "minus" }, `−${removed}`),
      ),
    ),
    h("div", { class: "lines", tabindex: "0" }, blocks.map(block)),
  );
}

function block({ same, removed, added, oldLine, newLine }, index, all) {
  if (same) return context(same, oldLine, newLine, index === 0, index === all.length - 1);
  return h(
    "div",
    { class: "change" },
    h(
      "div",
      { class: "old" },
      removed.map((text, n) => line(text, oldLine + n, "−", "removed")),
    ),
    h(
      "div",
      { class: "new" },
      added.map((text, n) => line(text, newLine + n, "+", "added")),
    ),
  );
}

function context(same, oldLine, newLine, first, last) {
  const head = first ? 0 : CONTEXT;
  const tail = last ? 0 : CONTEXT;
  if (same.length <= head + tail + 2) return unchanged(same, oldLine, newLine);
  const rest = same.length - head - tail;
  const more = h(
    "button",
    { type: "button", class: "more" },
    `${rest} unchanged ${rest === 1 ? "line" : "lines"}`,
  );
  more.addEventListener("click", () =>
    more.replaceWith(unchanged(same.slice(head, same.length - tail), oldLine + head, newLine + head)),
  );
  return [
    head > 0 && unchanged(same.slice(0, head), oldLine, newLine),
    more,
    tail > 0 && unchanged(same.slice(-tail), oldLine + same.length - tail, newLine + same.length - tail),
  ];
}

const unchanged = (same, oldLine, newLine) =>
  h(
    "div",
    { class: "change same" },
    h(
      "div",
      { class: "old" },
      same.map((text, n) => line(text, oldLine + n, " ", "")),
    ),
    h(
      "div",
      { class: "new", "aria-hidden": "true" },
      same.map((text, n) => line(text, newLine + n, " ", "")),
    ),
  );

const line = (text, number, sign, kind) =>
  h("div", { class: `line ${kind}`, dataset: { number, sign } }, h("span", {}, visible(text) || " "));

const lines = (text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

const sum = (items, value) => items.reduce((total, item) => total + value(item), 0);

/** The blocks of two lists of lines: `same` lines, or lines `removed` and `added` in their place. */
export function changes(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (
    end < before.length - start &&
    end < after.length - start &&
    before.at(-1 - end) === after.at(-1 - end)
  )
    end++;
  const script = [
    ...Array(start).fill("="),
    ...shortest(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...Array(end).fill("="),
  ];
  const blocks = [];
  let old = 0;
  let now = 0;
  for (const step of script) {
    const isSame = step === "=";
    let current = blocks.at(-1);
    if (!current || Boolean(current.same) !== isSame) {
      current = { same: isSame ? [] : null, removed: [], added: [], oldLine: old + 1, newLine: now + 1 };
      blocks.push(current);
    }
    if (isSame) current.same.push(before[old]);
    if (step === "-") current.removed.push(before[old]);
    if (step === "+") current.added.push(after[now]);
    if (step !== "+") old++;
    if (step !== "-") now++;
  }
  return blocks;
}

/** The shortest way from one list to the other by Myers' algorithm, as steps `=`, `-` and `+`. */
function shortest(before, after) {
  const [n, m] = [before.length, after.length];
  const reach = new Map([[1, 0]]);
  const trace = [];
  for (let d = 0; d <= Math.min(n + m, MOST_STEPS); d++) {
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? reach.get(k + 1) : reach.get(k - 1) + 1;
      while (x < n && x - k < m && before[x] === after[x - k]) x++;
      reach.set(k, x);
      if (x >= n && x - k >= m) return walkBack(trace, n, m, d);
    }
    trace.push(new Map(reach));
  }
  return [...Array(n).fill("-"), ...Array(m).fill("+")];
}

function walkBack(trace, n, m, found) {
  const steps = [];
  let [x, y] = [n, m];
  for (let d = found; d > 0; d--) {
    const reach = trace[d - 1];
    const k = x - y;
    const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const from = down ? k + 1 : k - 1;
    const [px, py] = [reach.get(from), reach.get(from) - from];
    while (x > (down ? px : px + 1) && y > (down ? py + 1 : py)) {
      steps.push("=");
      x--;
      y--;
    }
    steps.push(down ? "+" : "-");
    [x, y] = [px, py];
  }
  while (x > 0) {
    steps.push("=");
    x--;
  }
  return steps.reverse();
}
