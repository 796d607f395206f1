// What the agent asks in a session through a tool: it waits at the end, and is in no message.

import { arrange, h } from "./dom.js";
import { QuestionCard } from "./question-card.js";

export class AskedQuestions {
  #cards = new Map();

  constructor(conversation) {
    this.conversation = conversation;
    this.element = h("div", { class: "asked" });
  }

  /** `waiting` are the open sets of the session. */
  update(waiting) {
    if (!waiting.length && !this.element.childElementCount) return;
    const inMessages = new Set();
    for (const { content } of this.conversation.messages.values()) {
      if (content.type === "question") inMessages.add(content.questionSetId);
    }
    const shown = waiting.filter((set) => !inMessages.has(set.id));
    arrange(
      this.element,
      shown.map((set) => this.#card(set)),
    );
  }

  #card({ id }) {
    if (!this.#cards.has(id)) this.#cards.set(id, new QuestionCard(id, { isAlone: true }));
    const card = this.#cards.get(id);
    card.questionsChanged();
    return card.element;
  }
}
