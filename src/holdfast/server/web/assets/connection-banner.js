// Says when what is shown may be out of date.

import { connection } from "./feed.js";
import { h } from "./dom.js";

const PATIENCE = 1200; // a short break needs no words

export function connectionBanner() {
  const element = h("div", { class: "connection", role: "status" });
  let saying;
  connection.addEventListener("change", () => {
    clearTimeout(saying);
    if (connection.state === "open") {
      element.replaceChildren();
      return;
    }
    saying = setTimeout(
      () =>
        element.replaceChildren(
          h(
            "p",
            {},
            h("strong", {}, "Not connected."),
            " What you see is how things were. Trying again by itself.",
          ),
        ),
      PATIENCE,
    );
  });
  return element;
}
