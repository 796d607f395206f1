// What a command printed: its colours, and the last state of lines that were written over.

import { h } from "./dom.js";

const LONGEST = 100_000;
const ESCAPES = /\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]/g;

/** It begins at its end, which is what a command comes to. `isCut` when not all of it was kept. */
export function terminalOutput(text, exitCode, isCut) {
  const kept = text.slice(-LONGEST);
  const left = text.length - kept.length;
  const cut = left ? `${left.toLocaleString()} characters before this are not shown` : "Only the end was kept";
  return h(
    "div",
    { class: "terminal" },
    (left > 0 || isCut) && h("p", { class: "cut" }, cut),
    h(
      "div",
      { class: "output", tabindex: "0", role: "group", "aria-label": "Output" },
      h("pre", {}, kept.trim() ? coloured(kept) : h("span", { class: "muted" }, "No output")),
    ),
    exitCode !== undefined &&
      exitCode !== null &&
      exitCode !== 0 &&
      h("p", { class: "exit" }, `Exit code ${exitCode}`),
  );
}

function coloured(text) {
  const shown = text.replace(/\r\n/g, "\n").replace(/^.*\r(?!\n)/gm, "");
  const pieces = [];
  let style = new Set();
  let from = 0;
  const say = (until) => {
    const piece = shown.slice(from, until);
    if (piece) pieces.push(style.size ? h("span", { class: [...style].join(" ") }, piece) : piece);
  };
  for (const match of shown.matchAll(ESCAPES)) {
    say(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") style = styled(style, match[1]);
  }
  say(shown.length);
  return pieces;
}

function styled(style, codes) {
  const next = new Set(style);
  for (const code of (codes || "0").split(";").map(Number)) {
    if (code === 0) next.clear();
    else if (code === 1) next.add("ansi-bold");
    else if (code === 2) next.add("ansi-dim");
    else if (code === 22) ["ansi-bold", "ansi-dim"].forEach((name) => next.delete(name));
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97) || code === 39) {
      [...next].filter((name) => /^ansi-\d/.test(name)).forEach((name) => next.delete(name));
      if (code !== 39) next.add(`ansi-${code % 10}`);
    }
  }
  return next;
}
