// Where the agent's view has a summary in place of older messages. The originals can be unfolded.

import { button, h, icon } from "./dom.js";
import { showMarkdown } from "./markdown.js";
import { count } from "./times.js";

/** `toggle` shows or hides the originals, `undo` gives them back to the agent; without them, this only tells. */
export function compactionFold(
  { summary, firstSeq, lastSeq, tokensBefore, tokensAfter },
  unfolded,
  toggle,
  undo,
) {
  const text = h("div", { class: "text" });
  showMarkdown(text, summary);
  const folded = count(lastSeq - firstSeq + 1);
  const saved = tokensBefore && tokensAfter ? ` · ${count(tokensBefore)} → ${count(tokensAfter)} tokens` : "";
  const label = unfolded ? "Hide the originals" : `Show the ${folded} originals`;
  return h(
    "section",
    { class: "fold card", "aria-label": "Summary of earlier messages" },
    h(
      "header",
      {},
      icon("fold"),
      h("strong", {}, `The agent sees a summary of ${folded} messages`),
      h("span", { class: "muted" }, saved),
    ),
    text,
    toggle &&
      h(
        "div",
        { class: "row" },
        button(label, { class: "button quiet", "aria-expanded": String(unfolded), onclick: toggle }),
        button("Undo the summary", { class: "button quiet", onclick: undo }),
      ),
  );
}
