// What is known of a session beside what is said in it: mode and options, plan, tokens, where it works.

import { sessionHref, turnHref } from "./address.js";
import { h } from "./dom.js";
import { planCard } from "./plan.js";
import { isLive } from "./status.js";
import { store } from "./store.js";
import { tokenChart } from "./token-chart.js";
import { count, moment } from "./times.js";

export class SessionDetails {
  #shown = new Map();

  /** `set` has the agent take a mode, a model or an option, and says whether it did. */
  constructor(conversation, set) {
    Object.assign(this, { conversation, set });
    this.parts = Object.fromEntries(
      ["settings", "plan", "tokens", "facts"].map((name) => [name, h("div", { class: "part" })]),
    );
    this.element = h(
      "aside",
      { class: "details", "aria-label": "About this session" },
      Object.values(this.parts),
    );
  }

  update() {
    const { session, turns, pending } = this.conversation;
    const { modes, models, configOptions, usage } = session.agentState ?? {};
    const offered = { modes, models, configOptions, status: session.status };
    this.#show("settings", offered, () => this.#settings(session));
    this.#show("plan", this.#plan()?.id, () => this.#plan() && [planCard(this.#plan().content.steps)]);
    this.#show("tokens", [session.tokenUsage, usage, turns.size, pending.length], () =>
      this.#tokens(session, usage),
    );
    const { repoId, messageCount, turnCount } = session;
    const sandbox = session.agentState?.sandbox?.summary;
    const facts = [repoId, messageCount, turnCount, store.repos.size, modelOf(session), sandbox];
    this.#show("facts", facts, () => this.#facts(session));
  }

  /** Build a part again only when what it shows has changed. */
  #show(name, state, build) {
    const key = JSON.stringify(state) ?? "";
    if (this.#shown.get(name) === key) return;
    this.#shown.set(name, key);
    const content = build() || [];
    this.parts[name].hidden = !content.length;
    this.parts[name].replaceChildren(...content);
  }

  #settings(session) {
    const { modes, models, configOptions = [] } = session.agentState ?? {};
    const enabled = isLive(session);
    const fields = [];
    const offer = (label, choices, current, take) =>
      choices?.length && fields.push(select(label, choices, current, enabled, take));
    const modeChoices = modes?.availableModes?.map(({ id, name }) => [id, name ?? id]);
    offer("Mode", modeChoices, modes?.currentModeId, (mode) => this.set("mode", { mode }));
    const modelChoices = models?.availableModels?.map(({ modelId, name }) => [modelId, name ?? modelId]);
    offer("Model", modelChoices, models?.currentModelId, (model) => this.set("model", { model }));
    for (const { id, name, options, currentValue } of configOptions) {
      if (!Array.isArray(options)) continue;
      const flat = options.flatMap((option) => option.options ?? [option]);
      const choices = flat.map(({ value, name: label }) => [value, label ?? value]);
      offer(name ?? id, choices, currentValue, (value) => this.set("config", { configId: id, value }));
    }
    return fields;
  }

  /** The plan that is under way, if it is not far back. */
  #plan() {
    const { lastSeq, bySeq, pending } = this.conversation;
    for (let seq = lastSeq; seq > Math.max(0, lastSeq - 200); seq--) {
      const message = bySeq.get(seq);
      if (message?.content.type === "plan") return message.turnId === pending[0]?.id ? message : null;
    }
    return null;
  }

  #tokens({ tokenUsage, id }, usage) {
    const turns = [...this.conversation.turns.values()].sort((a, b) => a.sequenceNumber - b.sequenceNumber);
    if (!turns.some(({ usage: { input, output } }) => input + output)) return null;
    const full = usage?.size ? ` · ${Math.round((100 * usage.used) / usage.size)} % of the context` : "";
    return [
      h("h3", {}, "Tokens"),
      tokenChart(turns, (turn) => turnHref(id, turn.id)),
      h(
        "p",
        { class: "muted small" },
        `${count(tokenUsage.input)} in · ${count(tokenUsage.output)} out${full}`,
      ),
    ];
  }

  #facts(session) {
    const repo = store.repos.get(session.repoId) ?? session.repo;
    const original = session.custom?.forkedFrom?.session;
    const fact = (name, value) => value && [h("dt", {}, name), h("dd", {}, value)];
    return [
      h("h3", {}, "About"),
      h(
        "dl",
        { class: "facts" },
        fact("Repository", repo?.name),
        fact("Path", repo?.path),
        fact("Branch", repo?.branch),
        fact("Agent", session.agentState?.agent?.title ?? session.agent),
        fact("Sandbox", session.agentState?.sandbox?.summary),
        fact("Model", modelOf(session)),
        fact("Context", conversationOf(session)),
        fact("Forked from", original && h("a", { href: sessionHref(original) }, "another session")),
        fact("Messages", String(session.messageCount)),
        fact("Turns", String(session.turnCount)),
        fact("Began", moment(session.createdAt)),
        fact("Id", h("code", {}, session.id)),
      ),
    ];
  }
}

function modelOf({ lastModel, agentState }) {
  const { availableModels = [], currentModelId } = agentState?.models ?? {};
  return (
    availableModels.find(({ modelId }) => modelId === currentModelId)?.name ?? currentModelId ?? lastModel
  );
}

/** What the work is about, as people call it; an id that nobody knows any more says nothing. */
const conversationOf = ({ conversationContextId }) =>
  store.conversations.find(({ id }) => id === conversationContextId)?.name;

/** What is chosen goes back to what it was if `take` does not take it. */
function select(label, choices, current, enabled, take) {
  const options = choices.map(([value, name]) => h("option", { value }, name));
  const chosen = async () => {
    if (!(await take(element.value))) element.value = current;
  };
  const element = h("select", { disabled: !enabled, onchange: chosen }, options);
  element.value = current;
  return h("label", { class: "field" }, h("span", {}, label), element);
}
