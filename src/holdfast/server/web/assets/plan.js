// A plan with its progress.

import { h, icon } from "./dom.js";

const ICONS = { completed: "done", in_progress: "running" };
const WORDS = { completed: "done", in_progress: "under way" };

export function planCard(steps) {
  const known = steps.map((step) => (typeof step === "object" && step ? step : { content: String(step) }));
  const done = known.filter((step) => step.status === "completed").length;
  return h(
    "section",
    { class: "plan card", "aria-label": "Plan" },
    h(
      "header",
      {},
      h("strong", {}, "Plan"),
      h("span", { class: "muted" }, `${done} of ${known.length} done`),
    ),
    h("progress", { value: done, max: known.length || 1, "aria-label": "Plan progress" }),
    h("ol", {}, known.map(planStep)),
  );
}

function planStep({ content, status }) {
  return h(
    "li",
    { class: status ?? "pending" },
    icon(ICONS[status] ?? "todo"),
    h("span", {}, content, h("span", { class: "sr-only" }, ` (${WORDS[status] ?? "to do"})`)),
  );
}
