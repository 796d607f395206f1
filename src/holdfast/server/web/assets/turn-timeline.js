// The times of a turn: when each thing in it began, on one line of time.

import { h } from "./dom.js";
import { duration } from "./times.js";
import { visible } from "./visible.js";

const MOST = 30;
const NAMES = { text: "Said", thought: "Thought", plan: "Plan", question: "Asked you", resource: "Resource" };

/** Unless `isWhole`, messages are missing between the first and the last. */
export function turnTimeline(turn, messages, isWhole) {
  const began = Date.parse(turn.creationDate);
  const done = messages.filter((message) => message.role !== "user");
  const latest = Math.max(...done.map((message) => Date.parse(message.timestamp)), began);
  const ended = turn.status === "pending" ? latest : Math.max(latest, Date.parse(turn.statusTimeStamp));
  const whole = Math.max(1, ended - began);
  const rows = done.slice(0, MOST).map((message, index) => {
    const from = Date.parse(message.timestamp);
    const until = index + 1 < done.length ? Date.parse(done[index + 1].timestamp) : ended;
    return row(nameOf(message.content), from - began, until - from, whole, message.content.type);
  });
  return h(
    "ol",
    { class: "turn-timeline" },
    row("Waited", 0, (Date.parse(done[0]?.timestamp) || ended) - began, whole, "waited"),
    rows,
    done.length > MOST &&
      h("li", { class: "muted" }, `and ${isWhole ? "" : "more than "}${done.length - MOST} more`),
  );
}

function row(name, start, length, whole, kind) {
  const bar = h("span", { class: "bar", dataset: { kind } });
  bar.style.marginLeft = `${(100 * start) / whole}%`;
  bar.style.width = `max(3px, ${(100 * length) / whole}%)`;
  return h(
    "li",
    {},
    h("span", { class: "name" }, name),
    h("span", { class: "track" }, bar),
    h("span", { class: "took" }, duration(length)),
  );
}

const nameOf = (content) =>
  content.type === "tool" ? visible(content.title || content.tool) : (NAMES[content.type] ?? content.type);
