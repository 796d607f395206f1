// A text of which a turn itself carries the beginning; the whole is fetched when it is asked for.

import { getText } from "./api.js";
import { button, h } from "./dom.js";

const CARRIED = 1024; // characters

/** `show` puts a text into an element; `url` is where the whole is, if it is kept apart. */
export function wholeText(beginning, url, show) {
  const text = h("div", { class: "text" });
  show(text, beginning);
  if (!url || [...beginning].length < CARRIED || !beginning.endsWith("…")) return text;
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const all = button("Show all of it", {
    onclick: async () => {
      try {
        show(text, await getText(url));
        all.remove();
        problem.remove();
      } catch (refusal) {
        problem.hidden = false;
        problem.textContent = refusal.message;
      }
    },
  });
  return h("div", { class: "whole-text" }, text, all, problem);
}
