// What can be done with single keys, when nobody is typing.

import { dialog } from "./dialog.js";
import { h } from "./dom.js";

const KEYS = [
  ["n", "new session"],
  ["i", "inbox"],
  ["/", "search"],
  ["j, k", "next, previous: session or question"],
  ["1 … 9", "take that answer of the question you are at"],
  ["c", "write to the agent"],
  ["g", "to the latest message"],
  ["s", "stop the turn"],
  ["Esc", "leave a field; back to all sessions"],
  ["Enter", "send; Shift Enter for a new line"],
  ["?", "this list"],
];

export function listenForKeys(actions) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.repeat) return; // one press is one decision: a key that is held must not answer what comes next
    if (document.querySelector("dialog[open], :popover-open") || isTyping(event)) return;
    const act = /^[1-9]$/.test(event.key) ? () => actions.choose(Number(event.key) - 1) : actions[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

export function showKeys() {
  dialog(
    "Keys",
    h(
      "dl",
      { class: "key-list" },
      KEYS.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
    ),
  );
}

function isTyping({ target, key }) {
  if (key === "Escape" && target.matches("input, textarea")) {
    target.blur();
    return true;
  }
  if (target.closest("dialog:not([open])")) return false; // it was closed, and keeps the focus for a moment
  return (
    target.matches("input:not([type=radio], [type=checkbox]), textarea, select") || target.isContentEditable
  );
}
