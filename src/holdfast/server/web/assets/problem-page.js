// Something that cannot be shown: why, and where to go from here.

import { h } from "./dom.js";

export function problemPage(problem) {
  const title = problem.status === 404 ? "This is not here" : "This cannot be shown";
  return h(
    "div",
    { class: "empty-page" },
    h("h1", { tabindex: "-1" }, title),
    h("p", {}, problem.message),
    h("a", { class: "button", href: "#/" }, "All sessions"),
  );
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
