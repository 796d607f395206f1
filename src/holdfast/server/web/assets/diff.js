// The difference of two texts, side by side where there is room for it.

import { h } from "./dom.js";
import { visible } from "./visible.js";

const CONTEXT = 3;
const AT_FIRST = 400; // lines; more of them are shown when they are asked for
const MOST_STEPS = 600; // beyond so many differences, lines that are in both texts once lead on
const MOST_BETWEEN = 100; // the same between two such lines; there all counts as changed then
const NO_NEWLINE = "\n\\ No newline at the end of the file";

export function diffView(path, before, after, isNew) {
  const { blocks, isExact } = changes(...texts(before, after));
  const added = sum(blocks, (block) => block.added.length);
  const removed = sum(blocks, (block) => block.removed.length);
  const digits = String(lastLine(blocks.at(-1))).length;
  const shown = h("div", { class: "lines", tabindex: "0" }, beginning(blocks).map(block(digits)));
  const total = sum(blocks, linesOf);
  const all = h("button", { type: "button", class: "more" }, `Show all ${total.toLocaleString()} lines`);
  all.addEventListener("click", () => {
    shown.replaceChildren(...blocks.map(block(digits)).flat().filter(Boolean));
    all.remove();
  });
  return h(
    "figure",
    { class: `diff${isNew || !before ? " one-sided" : ""}`, "aria-label": `Change of ${visible(path)}` },
    h(
      "figcaption",
      {},
      h("code", {}, visible(path)),
      isNew && h("span", { class: "tag" }, "new file"),
      h(
        "span",
        { class: "counts" },
        !isExact && h("span", { class: "muted" }, "too different to compare exactly: at most"),
        h("span", { class: "plus" }, `+${added}`),
        h("span", { class: "minus" }, `−${removed}`),
      ),
    ),
    shown,
    total > AT_FIRST && all,
  );
}

/** Elements of a block, with the numbers of its lines in so many `digits`. */
const block =
  (digits) =>
  ({ same, removed, added, oldLine, newLine }, index, all) => {
    if (same) return context(same, oldLine, newLine, index === 0, index === all.length - 1, digits);
    return h(
      "div",
      { class: "change" },
      h(
        "div",
        { class: "old" },
        removed.map((text, n) => line(text, [oldLine + n, ""], "−", "removed", digits)),
      ),
      h(
        "div",
        { class: "new" },
        added.map((text, n) => line(text, ["", newLine + n], "+", "added", digits)),
      ),
    );
  };

function context(same, oldLine, newLine, first, last, digits) {
  const head = first ? 0 : CONTEXT;
  const tail = last ? 0 : CONTEXT;
  const unchanged = (from, until) =>
    sameLines(same.slice(from, until), oldLine + from, newLine + from, digits);
  if (same.length <= head + tail + 2) return unchanged(0, same.length);
  const rest = same.length - head - tail;
  const more = h(
    "button",
    { type: "button", class: "more" },
    `${rest} unchanged ${rest === 1 ? "line" : "lines"}`,
  );
  more.addEventListener("click", () => more.replaceWith(unchanged(head, same.length - tail)));
  return [
    head > 0 && unchanged(0, head),
    more,
    tail > 0 && unchanged(same.length - tail, same.length),
  ];
}

const sameLines = (same, oldLine, newLine, digits) =>
  h(
    "div",
    { class: "change same" },
    h(
      "div",
      { class: "old" },
      same.map((text, n) => line(text, [oldLine + n, newLine + n], " ", "", digits)),
    ),
    h(
      "div",
      { class: "new", "aria-hidden": "true" },
      same.map((text, n) => line(text, ["", newLine + n], " ", "", digits)),
    ),
  );

/** Side by side a line has one number; in one column it has that in the old text and that in the new. */
const line = (text, numbers, sign, kind, digits) =>
  h(
    "div",
    {
      class: `line ${kind}`,
      dataset: {
        number: padded(numbers[0] || numbers[1], digits),
        numbers: numbers.map((number) => padded(number, digits)).join(" "),
        sign,
      },
    },
    h("span", {}, visible(text) || " "),
  );

const padded = (number, digits) => String(number).padStart(digits);

/** The lines of both texts. That only one of them ends its last line is a change, and the other says so. */
function texts(before, after) {
  const both = [lines(before), lines(after)];
  if (before && after && before.endsWith("\n") !== after.endsWith("\n")) {
    const open = both[before.endsWith("\n") ? 1 : 0];
    open.push(open.pop() + NO_NEWLINE);
  }
  return both;
}

const lines = (text) => (text === "" ? [] : text.replace(/\n$/, "").split("\n"));

const sum = (items, value) => items.reduce((total, item) => total + value(item), 0);

const lastLine = ({ same, removed = [], added = [], oldLine = 1, newLine = 1 } = {}) =>
  Math.max(oldLine + (same ?? removed).length, newLine + (same ?? added).length) - 1;

/** How many lines of a block are on the page at first. */
const linesOf = ({ same, removed, added }) =>
  same ? Math.min(same.length, 2 * CONTEXT + 2) : removed.length + added.length;

/** As many blocks, and lines of the last of them, as are shown at first. */
function beginning(blocks) {
  let left = AT_FIRST;
  const shown = [];
  for (const each of blocks) {
    if (left <= 0) break;
    const removed = each.removed.slice(0, left);
    const added = each.added.slice(0, left);
    shown.push(each.same ? each : { ...each, removed, added });
    left -= linesOf(each);
  }
  return shown;
}

/**
 * The blocks of two lists of lines: `same` lines, or lines `removed` and `added` in their place. They
 * are not `isExact` where the lists were too different to find the shortest way between them.
 */
function changes(before, after) {
  const { steps, isExact } = way(before, after, MOST_STEPS);
  const blocks = [];
  let old = 0;
  let now = 0;
  for (const step of steps) {
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
  return { blocks, isExact };
}

/** A way from one list to the other, as steps `=`, `-` and `+`. */
function way(before, after, most) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  while (
    end < before.length - start &&
    end < after.length - start &&
    before.at(-1 - end) === after.at(-1 - end)
  )
    end++;
  const olds = before.slice(start, before.length - end);
  const news = after.slice(start, after.length - end);
  const found = shortest(olds, news, most);
  const { steps, isExact } = found ? { steps: found, isExact: true } : anchored(olds, news);
  return { steps: [...Array(start).fill("="), ...steps, ...Array(end).fill("=")], isExact };
}

/** A way by the lines that both lists have once, in the order that most of them have in both. */
function anchored(before, after) {
  const anchors = longestRise(common(before, after));
  if (!anchors.length) {
    const known = new Set(after);
    const steps = [...Array(before.length).fill("-"), ...Array(after.length).fill("+")];
    return { steps, isExact: !before.some((text) => known.has(text)) };
  }
  const steps = [];
  let [old, now] = [0, 0];
  for (const [x, y] of [...anchors, [before.length, after.length]]) {
    for (const step of way(before.slice(old, x), after.slice(now, y), MOST_BETWEEN).steps) steps.push(step);
    if (x < before.length) steps.push("=");
    [old, now] = [x + 1, y + 1];
  }
  return { steps, isExact: false };
}

/** The places `[x, y]` of the lines that are once in both lists, by `x`. */
function common(before, after) {
  const places = once(after);
  const pairs = [...once(before)].map(([text, x]) => [x, places.get(text)]);
  return pairs.filter(([, y]) => y !== undefined).sort((a, b) => a[0] - b[0]);
}

function once(list) {
  const places = new Map();
  list.forEach((text, place) => places.set(text, places.has(text) ? undefined : place));
  return new Map([...places].filter(([, place]) => place !== undefined));
}

/** The longest row of pairs in which both numbers rise. */
function longestRise(pairs) {
  const ends = []; // the best last pair of a row of each length, with the one before it
  for (const pair of pairs) {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle].pair[1] < pair[1]) low = middle + 1;
      else high = middle;
    }
    ends[low] = { pair, before: ends[low - 1] };
  }
  const row = [];
  for (let each = ends.at(-1); each; each = each.before) row.push(each.pair);
  return row.reverse();
}

/** The shortest way from one list to the other by Myers' algorithm; null when it has too many steps. */
function shortest(before, after, most) {
  const [n, m] = [before.length, after.length];
  const reach = new Map([[1, 0]]);
  const trace = [];
  for (let d = 0; d <= Math.min(n + m, most); d++) {
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = down ? reach.get(k + 1) : reach.get(k - 1) + 1;
      while (x < n && x - k < m && before[x] === after[x - k]) x++;
      reach.set(k, x);
      if (x >= n && x - k >= m) return walkBack(trace, n, m, d);
    }
    trace.push(new Map(reach));
  }
  return null;
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
