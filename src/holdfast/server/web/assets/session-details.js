// What is known of a session beside what is said in it: mode and options, plan, tokens, where it works.

import { turnHref } from "./address.js";
import { h } from "./dom.js";
import { planCard } from "./plan.js";
import { isLive } from "./status.js";
import { store } from "./store.js";
import { tokenChart } from "./token-chart.js";
import { count, moment } from "./times.js";

export class SessionDetails {
  #shown = new Map();

  constructor(conversation, setMode, setConfig) {
    Object.assign(this, { conversation, setMode, setConfig });
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
    const { modes, configOptions, usage } = session.agentState ?? {};
    this.#show("settings", { modes, configOptions, status: session.status }, () => this.#settings(session));
    this.#show("plan", this.#plan()?.id, () => this.#plan() && [planCard(this.#plan().content.steps)]);
    this.#show("tokens", [session.tokenUsage, usage, turns.size, pending.length], () =>
      this.#tokens(session, usage),
    );
    this.#show("facts", [session.repoId, session.messageCount, session.turnCount, store.repos.size], () =>
      this.#facts(session),
    );
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
    const { agentState = {} } = session;
    const enabled = isLive(session);
    const fields = [];
    const modes = agentState.modes?.availableModes ?? [];
    if (modes.length) {
      fields.push(
        select(
          "Mode",
          modes.map(({ id, name }) => [id, name ?? id]),
          agentState.modes.currentModeId,
          enabled,
          this.setMode,
        ),
      );
    }
    for (const { id, name, options, currentValue } of agentState.configOptions ?? []) {
      if (!Array.isArray(options)) continue;
      const flat = options.flatMap((option) => option.options ?? [option]);
      const choices = flat.map(({ value, name: label }) => [value, label ?? value]);
      fields.push(select(name ?? id, choices, currentValue, enabled, (value) => this.setConfig(id, value)));
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
        fact("Model", modelOf(session)),
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
    lastModel ?? availableModels.find(({ modelId }) => modelId === currentModelId)?.name ?? currentModelId
  );
}

function select(label, choices, current, enabled, changed) {
  const options = choices.map(([value, name]) => h("option", { value }, name));
  const element = h(
    "select",
    { disabled: !enabled, onchange: (event) => changed(event.target.value) },
    options,
  );
  element.value = current;
  return h("label", { class: "field" }, h("span", {}, label), element);
}
