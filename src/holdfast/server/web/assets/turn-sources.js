// What a model was given besides the instruction: chunks of indexed files, and the files at hand.

import { h } from "./dom.js";
import { foldedLines } from "./fold.js";
import { count } from "./times.js";

/** Chunks by path and lines, with their hash; unfolded, the exact text that was sent. */
export const sources = (refs) =>
  h(
    "ul",
    { class: "sources" },
    refs.map(({ path, startLine, endLine, contentHash }) =>
      h(
        "li",
        {},
        foldedLines(
          [h("code", {}, `${path}:${startLine}–${endLine}`), hash(contentHash)],
          contentHash,
          startLine,
        ),
      ),
    ),
  );

/** Files as they were then, and what became of each; those that were sent can be unfolded. */
export const files = (refs) =>
  h(
    "ul",
    { class: "sources" },
    refs.map((ref) => {
      const label = [
        h("code", {}, ref.path),
        fates(ref).map((fate) => h("span", { class: "tag" }, fate)),
        h("small", {}, `${count(ref.sizeBytes)} bytes`),
        hash(ref.contentHash),
      ];
      return h(
        "li",
        {},
        ref.wasSentToLLM
          ? foldedLines(label, ref.contentHash)
          : h("div", { class: "card folded" }, label),
      );
    }),
  );

function fates({ isTouched, wasSentToLLM, wasTooLargeToSend }) {
  const sent = wasSentToLLM ? "sent" : wasTooLargeToSend ? "too large to send" : "not sent";
  return isTouched ? ["touched", sent] : [sent];
}

/** Enough of a hash to tell it from others; the whole of it is its title. */
const hash = (contentHash) => h("small", { class: "hash", title: contentHash }, contentHash);
