// A turn explained: what was asked, what came of it, from which sources, and when what happened.

import { get, instruct, post } from "./api.js";
import { go, sessionHref } from "./address.js";
import { arrange, button, h, icon } from "./dom.js";
import { html, showMarkdown } from "./markdown.js";
import { problemPage } from "./problem-page.js";
import { statusMark } from "./status.js";
import { store } from "./store.js";
import { turnChain, turnFacts } from "./turn-facts.js";
import { turnRequest } from "./turn-request.js";
import { files, sources } from "./turn-sources.js";
import { turnTimeline } from "./turn-timeline.js";
import { wholeText } from "./whole-text.js";

const PAGE = 1000; // messages of a turn that are read from its beginning
const END = 100; // and, of one that has more, from its end

export class TurnView {
  title = "Turn";
  #parts = new Map();
  #isReading = false;
  #isStale = false;

  constructor(sessionId, turnId) {
    this.path = `/api/sessions/${sessionId}`;
    this.sessionId = sessionId;
    this.turnId = turnId;
    this.element = h("section", { class: "turn-view", "aria-label": "Turn" });
  }

  async open() {
    store.addEventListener("sessions", this.#changed);
    await this.#read();
  }

  close() {
    store.removeEventListener("sessions", this.#changed);
  }

  /** A turn that is over never changes; one that is not is read again when its session has changed. */
  #changed = () => {
    const { rev } = store.sessions.get(this.sessionId) ?? {};
    if ((this.turn?.status ?? "pending") === "pending" && rev !== this.rev) this.#read();
    this.rev = rev;
  };

  /** One read at a time, so that none is overtaken: what changes meanwhile is read after it. */
  async #read() {
    this.#isStale = true;
    if (this.#isReading) return;
    this.#isReading = true;
    while (this.#isStale) {
      this.#isStale = false;
      await this.#show();
    }
    this.#isReading = false;
  }

  async #show() {
    try {
      [this.session, this.turn] = await Promise.all([
        get(this.path, { messages: "none" }),
        get(`${this.path}/turns/${this.turnId}`),
      ]);
      await this.#readMessages();
    } catch (problem) {
      this.element.replaceChildren(problemPage(problem));
      return;
    }
    this.title = `Turn ${this.turn.sequenceNumber}`;
    if (this.#answerText) await html(this.#answerText); // so that it does not appear as plain text first
    this.column ??= this.#build();
    if (this.scroller.parentNode !== this.element) this.element.replaceChildren(this.header, this.scroller);
    arrange(this.column, [this.problem, ...this.#content()].filter(Boolean));
  }

  /** What was said and done in the turn: all of it, or the beginning and the end of very much. */
  async #readMessages() {
    const since = new Date(new Date(this.turn.creationDate) - 1).toISOString();
    const { messages, next } = await get(`${this.path}/messages`, { since, limit: PAGE });
    const last = messages.at(-1);
    const end = next === null ? [] : await this.#end(last);
    const isOfTurn = ({ turnId }) => turnId === this.turnId;
    const rest = end.filter(({ seq }) => seq > last.seq).filter(isOfTurn);
    this.messages = [...messages.filter(isOfTurn), ...rest];
    this.isWhole = !rest.length || rest[0].seq === last.seq + 1;
  }

  /** The last that was said before the turn was over, if `known` was not said after it. */
  async #end(known) {
    const { status, statusTimeStamp } = this.turn;
    if (status !== "pending" && known.timestamp > statusTimeStamp) return [];
    const path = `${this.path}/messages`;
    const later = status === "pending" ? [] : (await get(path, { since: statusTimeStamp, limit: 1 })).messages;
    const before = later[0]?.seq ?? this.session.messageCount + 1;
    return (await get(path, { before, limit: END })).messages;
  }

  /** What stays as it is while the turn goes on; the column for what does not. */
  #build() {
    this.about = h("p", { class: "about" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    const column = h("div", { class: "column" });
    this.scroller = h("div", { class: "scroller", tabindex: "0" }, column);
    this.header = this.#header();
    return column;
  }

  #header() {
    return h(
      "header",
      { class: "view-header" },
      h(
        "a",
        {
          class: "icon-button back always",
          href: sessionHref(this.sessionId),
          "aria-label": "Back to the session",
        },
        icon("back"),
      ),
      h(
        "div",
        { class: "titles" },
        h("h1", { tabindex: "-1" }, this.title),
        this.about,
      ),
      this.#againButton(),
    );
  }

  /** A model is given everything as it was, with its files read afresh; an agent the same words. */
  #againButton() {
    const [label, again] = this.session.agentContextId
      ? ["Run again", () => this.#rerun()]
      : ["Send again", () => instruct(this.session, this.#instruction)];
    const element = button(label, {
      onclick: async () => {
        element.disabled = true;
        try {
          await again();
          go(sessionHref(this.sessionId));
        } catch (problem) {
          element.disabled = false;
          this.problem.hidden = false;
          this.problem.textContent = problem.message;
        }
      },
    });
    return element;
  }

  /** Run the turn again, until there is a new one to be looked at; its answer is seen in the session. */
  async #rerun() {
    const seen = new AbortController();
    const begun = new Promise((resolve) => {
      const look = () => store.sessions.get(this.sessionId)?.turnCount > this.session.turnCount && resolve();
      store.addEventListener("sessions", look, { signal: seen.signal });
    });
    try {
      await Promise.race([post(`${this.path}/turns/${this.turnId}/rerun`), begun]);
    } finally {
      seen.abort();
    }
  }

  get #instruction() {
    const said = this.messages.find((message) => message.role === "user");
    return said?.content.text ?? this.turn.instructionSummary;
  }

  get #answerText() {
    const { fullAgentAnswerUrl, agentAnswerSummary } = this.turn;
    const said = this.messages.findLast(({ role, content }) => role === "agent" && content.type === "text");
    return fullAgentAnswerUrl ? agentAnswerSummary : (said?.content.text ?? agentAnswerSummary);
  }

  #content() {
    const { turn, messages, isWhole } = this;
    const { errors, warnings, chunkRefs, activeFileRefs, conversationId, recipe } = turn;
    this.#showState();
    return [
      this.#part("Instruction", [turn.instructionSummary, this.#instruction], () => this.#asked()),
      this.#part("Answer", [turn.status, this.#answerText], () => this.#answer()),
      this.#part("What went wrong", errors, () => errors.length && list(errors, "problem")),
      this.#part("Warnings", warnings, () => warnings.length && list(warnings)),
      this.#part("When", [turn.status, messages.map(timed)], () => turnTimeline(turn, messages, isWhole)),
      this.#part("Sources", chunkRefs, () => chunkRefs.length && sources(chunkRefs)),
      this.#part("Files", activeFileRefs, () => activeFileRefs.length && files(activeFileRefs)),
      this.#part("Chain", [conversationId, turn.previousOpenAIResponseId, turn.openAIChainExpiresDate], () =>
        turnChain(turn),
      ),
      this.#part(
        "What was sent",
        [turn.openAIRequestPayloadUrl, turn.openAIResponsePayloadUrl, recipe],
        () => turnRequest(turn),
      ),
      this.#part("Facts", turn, () => turnFacts(turn)),
    ];
  }

  /** A part of the view; the same element as before unless `state`, which it shows, has changed. */
  #part(title, state, build) {
    const key = JSON.stringify(state);
    const known = this.#parts.get(title);
    if (known?.key === key) return known.element;
    const content = build();
    const element =
      content && h("section", { class: "part", "aria-label": title }, h("h2", {}, title), content);
    this.#parts.set(title, { key, element });
    return element;
  }

  #showState() {
    const { status, stopReason } = this.turn;
    const shown = [
      statusMark(status === "failed" ? "error" : status),
      stopReason && h("span", {}, stopReason.replaceAll("_", " ")),
    ];
    this.about.replaceChildren(...shown.filter(Boolean));
  }

  #asked() {
    const { fullInstructionUrl, instructionSummary } = this.turn;
    const plain = (element, text) => {
      element.classList.add("plain");
      element.textContent = text;
    };
    const text = fullInstructionUrl ? instructionSummary : this.#instruction;
    return h("div", { class: "prompt-box" }, wholeText(text, fullInstructionUrl, plain));
  }

  #answer() {
    const { fullAgentAnswerUrl, status } = this.turn;
    if (this.#answerText) return wholeText(this.#answerText, fullAgentAnswerUrl, showMarkdown);
    return h("p", { class: "muted" }, status === "pending" ? "It is being worked on." : "There is none.");
  }
}

/** What of a message is seen on the line of time. */
const timed = ({ id, timestamp, content: { type, title, tool } }) => [id, timestamp, type, title, tool];

const list = (sentences, kind = "") =>
  h(
    "ul",
    { class: kind },
    sentences.map((sentence) => h("li", {}, sentence)),
  );
