// How a session stands, in a word and a mark.

import { h } from "./dom.js";

const WORDS = {
  waiting: "waits for you",
  running: "working",
  active: "ready",
  idle: "idle",
  compacted: "ready",
  error: "failed",
};
const REASONS = {
  idle_timeout: "nothing happened for a while",
  agent_exited: "its agent ended",
  agent_crashed: "its agent crashed",
  pipe_broken: "its agent closed the line",
  shutdown: "the server was stopped",
  server_restart: "the server was restarted",
};

export function statusMark(status, reason) {
  const because =
    reason && status !== "running" && status !== "waiting"
      ? (REASONS[reason] ?? reason.replaceAll("_", " "))
      : "";
  const word = WORDS[status] ?? status;
  return h(
    "span",
    { class: "status", dataset: { status } },
    h("span", { class: "dot" }),
    because ? `${word}: ${because}` : word,
  );
}
