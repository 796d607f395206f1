// A card where the agent is shown less than was said: a summary of messages, or nothing of them.

import { button, h, icon } from "./dom.js";
import { showMarkdown } from "./markdown.js";
import { count } from "./times.js";

export class CompactionFold {
  /** `toggle` shows or hides the originals, `undo` gives them back to the agent; without them, this only tells. */
  constructor(toggle, undo) {
    this.heading = h("strong");
    this.saved = h("span", { class: "muted" });
    this.text = h("div", { class: "text" });
    this.toggle = button("", { class: "button quiet", onclick: toggle });
    this.undo = button("", { class: "button quiet", onclick: undo });
    this.element = h(
      "section",
      { class: "fold card" },
      h("header", {}, icon("fold"), this.heading, this.saved),
      this.text,
      toggle && h("div", { class: "row" }, this.toggle, this.undo),
    );
  }

  /** Without a summary, the messages are left out. */
  update({ summary, ranges, tokensBefore, tokensAfter }, isUnfolded = false) {
    const messages = count(ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0));
    const isSummary = summary !== undefined;
    this.element.setAttribute(
      "aria-label",
      isSummary ? "Summary of earlier messages" : "Messages that are left out",
    );
    this.heading.textContent = isSummary
      ? `The agent sees a summary of ${messages} messages`
      : `The agent is not shown these ${messages} messages`;
    this.saved.textContent =
      tokensBefore && tokensAfter ? ` · ${count(tokensBefore)} → ${count(tokensAfter)} tokens` : "";
    this.text.hidden = !isSummary;
    if (isSummary) showMarkdown(this.text, inParagraphs(summary));
    this.toggle.textContent = isUnfolded ? "Hide the originals" : `Show the ${messages} originals`;
    this.toggle.setAttribute("aria-expanded", String(isUnfolded));
    this.undo.textContent = isSummary ? "Undo the summary" : "Undo";
  }
}

/** A line like “Decided:” begins something new: without an empty line before it, it would belong to the list above. */
const inParagraphs = (summary) => summary.replace(/^\w+:$/gm, "\n$&");
