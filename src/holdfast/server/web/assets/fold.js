// Something large behind a line: it is fetched when it is unfolded for the first time.

import { getText } from "./api.js";
import { h } from "./dom.js";

/** `load` gives the element to show. What failed is tried again when it is unfolded again. */
export function fold(label, load) {
  const body = h("div", { class: "unfolded" });
  const element = h("details", { class: "card folded" }, h("summary", {}, label), body);
  let isLoaded = false;
  element.addEventListener("toggle", async () => {
    if (!element.open || isLoaded) return;
    isLoaded = true;
    try {
      body.replaceChildren(await load());
    } catch (problem) {
      isLoaded = false;
      body.replaceChildren(h("p", { class: "problem", role: "alert" }, problem.message));
    }
  });
  return element;
}

/** The exact text of a blob, by its hash, with the numbers of its lines. */
export const foldedLines = (label, contentHash, first = 1) =>
  fold(label, async () => numbered(await getText(`/api/blobs/${contentHash}`), first));

function numbered(text, first) {
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  return h(
    "pre",
    { class: "numbered", tabindex: "0" },
    lines.map((line, index) => h("span", { dataset: { line: first + index } }, line)),
  );
}
