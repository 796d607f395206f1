// A message of a session: each kind has its own look, and can change while it is on the page.

import { turnHref } from "./address.js";
import { CompactionFold } from "./compaction-fold.js";
import { h, icon } from "./dom.js";
import { json } from "./json.js";
import { html, showMarkdown } from "./markdown.js";
import { planCard } from "./plan.js";
import { QuestionCard } from "./question-card.js";
import { duration, moment, timeOfDay } from "./times.js";
import { ToolCard } from "./tool-card.js";

const LONGEST_LIVE = 20_000; // characters; a longer text is Markdown when it has ended

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
    const href = turnHref(conversation.id, message.turnId);
    this.turn = h("a", { class: "turn-link", href, hidden: !message.turnId }, "Turn");
    this.element = h(
      "article",
      { class: "message prompt", "aria-label": "You" },
      h("header", {}, h("span", { class: "who" }, "You"), time(message), this.turn),
      h("div", { class: "text plain" }, message.content.text),
    );
    this.turnChanged();
  }

  update() {}

  /** What is known of the turn that this began: of one that is long over, only where it is explained. */
  turnChanged() {
    const turn = this.conversation.turns.get(this.message.turnId);
    if (!turn) return;
    const waits = turn.status === "pending" && this.conversation.pending[0]?.id !== turn.id;
    const took = duration(new Date(turn.statusTimeStamp) - new Date(turn.creationDate));
    const state = { pending: waits ? "queued" : "running", completed: took, failed: "failed" }[turn.status];
    this.turn.textContent = `Turn ${turn.sequenceNumber} · ${state}`;
    this.element.classList.toggle("queued", waits);
    this.element.classList.toggle("failed", turn.status === "failed");
  }
}

/** What the agent says. While it streams, its finished paragraphs are Markdown and the rest is plain. */
class AgentText {
  #settled = 0;
  #asking = false;

  constructor(message) {
    this.text = h("div", { class: "text" });
    this.paragraphs = h("div", { class: "text" });
    this.tail = h("div", { class: "tail plain" }, " ");
    this.element = h("article", { class: "message said", "aria-label": "Agent" }, this.text);
    this.update(message);
  }

  update({ content }) {
    this.content = content;
    this.element.classList.toggle("streaming", content.partial === true);
    if (!content.partial) {
      showMarkdown(this.text, content.text);
      return;
    }
    this.text.replaceChildren(this.paragraphs, this.tail);
    this.tail.firstChild.data = content.text.slice(this.#settled);
    this.#settle();
  }

  /** Add to the end without touching what is there. */
  grow(added) {
    this.tail.firstChild.appendData(added);
    if (added.includes("\n")) this.#settle();
  }

  async #settle() {
    if (this.#asking || this.content.text.length > LONGEST_LIVE) return;
    const end = endOfParagraphs(this.content.text, this.#settled);
    if (end === this.#settled) return;
    this.#asking = true;
    const markup = await html(this.content.text.slice(0, end));
    this.#asking = false;
    if (markup === null || !this.content.partial) return;
    this.#settled = end;
    this.paragraphs.innerHTML = markup;
    this.tail.firstChild.data = this.content.text.slice(end);
  }
}

/** Where the last paragraph ends that is complete, and in no code block that still goes on. */
function endOfParagraphs(text, settled) {
  for (let at = text.lastIndexOf("\n\n"); at > settled; at = text.lastIndexOf("\n\n", at - 1)) {
    const fences = text.slice(0, at).match(/^ {0,3}(```|~~~)/gm) ?? [];
    if (fences.length % 2 === 0) return at + 2;
  }
  return settled;
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
      return toldFold(content);
    case "resource":
      return h("p", { class: "resource" }, icon("file"), content.name ?? content.uri);
    default:
      return h(
        "details",
        { class: "thought" },
        h(
          "summary",
          {},
          icon("info"),
          `Something of the kind “${content.sessionUpdate ?? content.type ?? "unknown"}”`,
        ),
        json(content),
      );
  }
}

function toldFold({ summary, firstSeq, lastSeq }) {
  const fold = new CompactionFold();
  fold.update({ summary, ranges: [[firstSeq, lastSeq]] });
  return fold.element;
}

const time = (message) =>
  h("time", { datetime: message.timestamp, title: moment(message.timestamp) }, timeOfDay(message.timestamp));
