// A message of a session: each kind has its own look, and can change while it is on the page.

import { turnHref } from "./address.js";
import { compactionFold } from "./compaction-fold.js";
import { h, icon } from "./dom.js";
import { json } from "./json.js";
import { showMarkdown } from "./markdown.js";
import { planCard } from "./plan.js";
import { QuestionCard } from "./question-card.js";
import { duration, moment, timeOfDay } from "./times.js";
import { ToolCard } from "./tool-card.js";

/** The view of a message: an `element`, `update(message)` and, for text, `grow(text)`. */
export function messageView(message, conversation) {
  const { type } = message.content;
  if (type === "text" && message.role === "user") return new Prompt(message, conversation);
  if (type === "text" && message.role === "agent") return new AgentText(message);
  if (type === "text") return new Note(message);
  if (type === "thought") return new Thought(message);
  if (type === "tool") return new ToolCard(message, conversation);
  if (type === "question") return new QuestionCard(message.content.questionSetId, { asked: message.content });
  return new Other(message);
}

class Prompt {
  constructor(message, conversation) {
    this.message = message;
    this.conversation = conversation;
    this.turn = h("a", { class: "turn-link", href: turnHref(conversation.id, message.turnId) });
    this.element = h(
      "article",
      { class: "message prompt", "aria-label": "You" },
      h("header", {}, h("span", { class: "who" }, "You"), time(message), this.turn),
      h("div", { class: "text plain" }, message.content.text),
    );
    this.turnChanged();
  }

  update() {}

  /** What is known of the turn that this began. */
  turnChanged() {
    const turn = this.conversation.turns.get(this.message.turnId);
    this.turn.hidden = !turn;
    if (!turn) return;
    const waits = turn.status === "pending" && this.conversation.pending[0]?.id !== turn.id;
    const took = duration(new Date(turn.statusTimeStamp) - new Date(turn.creationDate));
    const state = { pending: waits ? "queued" : "running", completed: took, failed: "failed" }[turn.status];
    this.turn.textContent = `Turn ${turn.sequenceNumber} · ${state}`;
    this.element.classList.toggle("queued", waits);
    this.element.classList.toggle("failed", turn.status === "failed");
  }
}

class AgentText {
  constructor(message) {
    this.text = h("div", { class: "text" });
    this.element = h("article", { class: "message said", "aria-label": "Agent" }, this.text);
    this.update(message);
  }

  update({ content }) {
    const streaming = content.partial === true;
    this.element.classList.toggle("streaming", streaming);
    if (!streaming) {
      showMarkdown(this.text, content.text);
      return;
    }
    this.text.classList.add("plain");
    this.text.textContent = content.text;
  }

  /** Add to the end without touching what is there. */
  grow(added) {
    if (this.text.lastChild instanceof Text) this.text.lastChild.appendData(added);
    else this.text.append(added);
  }
}

class Thought {
  constructor(message) {
    this.text = h("div", { class: "text" });
    this.hint = h("span", { class: "hint" });
    this.element = h(
      "details",
      { class: "message thought" },
      h("summary", {}, icon("thought"), h("span", {}, "Thought"), this.hint),
      this.text,
    );
    this.element.addEventListener("toggle", () => this.#show());
    this.update(message);
  }

  update({ content }) {
    this.content = content;
    this.hint.textContent = content.text.trim().split("\n")[0].slice(0, 160);
    this.#show();
  }

  grow() {
    this.update({ content: this.content });
  }

  #show() {
    if (!this.element.open) return;
    if (this.content.partial) this.text.textContent = this.content.text;
    else showMarkdown(this.text, this.content.text);
  }
}

class Note {
  constructor(message) {
    this.text = h("p", {});
    this.element = h("aside", { class: "message note" }, icon("info"), this.text);
    this.update(message);
  }

  update({ content }) {
    this.text.textContent = content.text;
  }
}

class Other {
  constructor(message) {
    this.element = h("div", { class: "message" });
    this.update(message);
  }

  update({ content }) {
    this.element.replaceChildren(otherContent(content));
  }
}

function otherContent(content) {
  switch (content.type) {
    case "plan":
      return planCard(content.steps);
    case "compaction":
      return compactionFold(content);
    case "resource":
      return h("p", { class: "resource" }, icon("file"), content.name ?? content.uri);
    default:
      return h(
        "details",
        { class: "thought" },
        h("summary", {}, icon("info"), `Something of the kind “${content.sessionUpdate ?? content.type ?? "unknown"}”`),
        json(content),
      );
  }
}

const time = (message) =>
  h("time", { datetime: message.timestamp, title: moment(message.timestamp) }, timeOfDay(message.timestamp));
