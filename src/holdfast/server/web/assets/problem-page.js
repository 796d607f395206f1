// Something that cannot be shown: why, and where to go from here.

import { Unreachable } from "./api.js";
import { h } from "./dom.js";
import { whenReachable } from "./feed.js";

/** While it is on the page, a server that comes back is told of with `try-again`. */
export function problemPage(problem) {
  const title = problem.status === 404 ? "This is not here" : "This cannot be shown";
  const page = h(
    "div",
    { class: "empty-page" },
    h("h1", { tabindex: "-1" }, title),
    h("p", {}, problem.message),
    h("a", { class: "button", href: "#/" }, "All sessions"),
  );
  if (problem instanceof Unreachable)
    whenReachable(() => page.isConnected && document.dispatchEvent(new Event("try-again")));
  return page;
}

/** For somebody whom the server does not know. */
export function signedOutPage() {
  return h(
    "div",
    { class: "empty-page" },
    h("h1", { tabindex: "-1" }, "Sign in to Holdfast"),
    h(
      "p",
      {},
      "Open the link that ",
      h("code", {}, "holdfast serve"),
      " printed in its terminal. It works once; for a new one, run",
    ),
    h("pre", { tabindex: "0" }, "holdfast token link"),
    h(
      "p",
      { class: "muted" },
      "Agents run on this machine with your rights, so the page asks who you are, on this machine too.",
    ),
  );
}
