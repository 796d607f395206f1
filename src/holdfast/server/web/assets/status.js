// How a session stands, in a word and a mark.

import { h } from "./dom.js";

/** Whether its agent can be told something. */
export const isLive = ({ status }) => ["active", "idle", "compacted"].includes(status);

/** Whether its agent can be started again in it, or its model be told more. */
export const canResume = ({ status }) => ["completed", "cancelled", "archived"].includes(status);

const WORDS = { waiting: "waits for you", running: "working", compacted: "active", error: "failed" };
const REASONS = {
  idle_timeout: "nothing happened for a while",
  agent_exited: "its agent ended",
  agent_crashed: "its agent crashed",
  pipe_broken: "its agent closed the line",
  shutdown: "the server was stopped",
  server_restart: "the server was restarted",
};

export function statusMark(status, reason) {
  const isOver = !isLive({ status }) && !["running", "waiting"].includes(status);
  const because = reason && isOver ? (REASONS[reason] ?? reason.replaceAll("_", " ")) : "";
  const word = WORDS[status] ?? status;
  return h(
    "span",
    { class: "status", dataset: { status } },
    h("span", { class: "dot" }),
    because ? `${word}: ${because}` : word,
  );
}
