// The request that a turn sent to a model and the response to it, as bytes; and whether they can be made again.

import { get, getText } from "./api.js";
import { button, h } from "./dom.js";
import { fold } from "./fold.js";
import { json } from "./json.js";

const PAYLOADS = { openAIRequestPayloadUrl: "Request", openAIResponsePayloadUrl: "Response" };

/** What is there to be shown; nothing for a turn that was not sent to a model. */
export function turnRequest(turn) {
  const payloads = Object.entries(PAYLOADS)
    .filter(([name]) => turn[name])
    .map(([name, label]) => payload(label, turn[name]));
  return payloads.length ? [...payloads, turn.recipe && replay(turn)] : null;
}

const payload = (label, url) =>
  fold([label, h("small", {}, "as it went over the line")], async () =>
    h(
      "div",
      {},
      readable(await getText(url)),
      h("p", { class: "small" }, h("a", { href: url, target: "_blank", rel: "noopener" }, "Open all of it")),
    ),
  );

function readable(text) {
  try {
    return json(JSON.parse(text));
  } catch {
    return h("pre", { class: "json", tabindex: "0" }, text);
  }
}

function replay({ sessionId, id }) {
  const result = h("p", { class: "replayed", role: "status" });
  const again = button("Replay", {
    title: "Make the request again from what was kept, and compare",
    onclick: async () => {
      again.disabled = true;
      try {
        show(result, await get(`/api/sessions/${sessionId}/turns/${id}/replay`));
      } catch (problem) {
        result.dataset.outcome = "different";
        result.textContent = problem.message;
      }
      again.disabled = false;
    },
  });
  return h("div", { class: "replay" }, again, result);
}

function show(result, { identical, sentHash, remadeHash, problem }) {
  result.dataset.outcome = identical ? "identical" : "different";
  result.replaceChildren(
    ...(identical
      ? [
          h("strong", {}, "Identical."),
          " Made again from what was kept, the request is byte for byte the one that was sent. ",
          h("code", {}, sentHash),
        ]
      : remadeHash
        ? [
            h("strong", {}, "Not identical."),
            " Made again from what was kept, the request is another one: ",
            h("code", {}, remadeHash),
            " instead of ",
            h("code", {}, sentHash),
          ]
        : [h("strong", {}, "Not identical."), ` It cannot be made again: ${problem}`]),
  );
}
