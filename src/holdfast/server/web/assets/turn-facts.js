// A turn in names and values: who asked, when, what it cost, and the chain of responses it stands in.

import { turnHref } from "./address.js";
import { h } from "./dom.js";
import { count, duration, moment } from "./times.js";

export function turnFacts(turn) {
  const ended = turn.status !== "pending";
  return list({
    "Asked by": turn.createdByUser,
    Asked: moment(turn.creationDate),
    Ended: ended && moment(turn.statusTimeStamp),
    Took: ended && duration(new Date(turn.statusTimeStamp) - new Date(turn.creationDate)),
    Tokens: `${count(turn.usage.input)} in · ${count(turn.usage.output)} out`,
    Model: turn.openAIModel,
    Response: code(turn.openAIResponseId),
    Mode: turn.mode,
    Id: code(turn.id),
  });
}

/** How a turn of a model goes on from earlier ones. */
export function turnChain(turn) {
  const { id, sessionId, conversationId, previousOpenAIResponseId, openAIChainExpiresDate } = turn;
  if (!conversationId) return null;
  const beginsHere = conversationId === id;
  const expires = openAIChainExpiresDate && moment(openAIChainExpiresDate);
  return list({
    Begins: beginsHere
      ? "with this turn: everything that was said before was sent"
      : h("a", { href: turnHref(sessionId, conversationId) }, code(conversationId)),
    "Goes on from": code(previousOpenAIResponseId),
    Expires: expires && (new Date(openAIChainExpiresDate) < new Date() ? `${expires}, and is no more` : expires),
  });
}

const code = (text) => text && h("code", {}, text);

const list = (facts) =>
  h(
    "dl",
    { class: "facts" },
    Object.entries(facts)
      .filter(([, value]) => value)
      .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
