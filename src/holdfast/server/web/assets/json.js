// JSON for people: a table when it is flat, indented otherwise.

import { h } from "./dom.js";
import { visible } from "./visible.js";

const LONGEST = 20_000;

export function json(value) {
  const text = JSON.stringify(value, null, 2) ?? "";
  const shown =
    text.length > LONGEST ? `${text.slice(0, LONGEST)}\n… ${text.length - LONGEST} more characters` : text;
  return h("pre", { class: "json", tabindex: "0" }, visible(shown));
}

/** A tool's arguments or result: names and values, where all values fit on a line. */
export function facts(value) {
  if (typeof value === "string") return h("pre", { class: "json", tabindex: "0" }, visible(value));
  const entries = value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : null;
  const flat = entries?.every(([, each]) => typeof each !== "object" && String(each).length < 200);
  if (!flat) return json(value);
  return h(
    "dl",
    { class: "facts" },
    entries.map(([name, each]) => [h("dt", {}, visible(name)), h("dd", {}, visible(each))]),
  );
}
