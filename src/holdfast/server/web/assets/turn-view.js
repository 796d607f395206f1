// A turn explained: what was asked, what came of it, from which sources, and when what happened.

import { get, instruct, post } from "./api.js";
import { go, sessionHref } from "./address.js";
import { button, h, icon } from "./dom.js";
import { showMarkdown } from "./markdown.js";
import { problemPage } from "./problem-page.js";
import { statusMark } from "./status.js";
import { store } from "./store.js";
import { turnChain, turnFacts } from "./turn-facts.js";
import { turnRequest } from "./turn-request.js";
import { files, sources } from "./turn-sources.js";
import { turnTimeline } from "./turn-timeline.js";
import { wholeText } from "./whole-text.js";

export class TurnView {
  title = "Turn";

  constructor(sessionId, turnId) {
    this.path = `/api/sessions/${sessionId}`;
    this.sessionId = sessionId;
    this.turnId = turnId;
    this.element = h("section", { class: "turn-view", "aria-label": "Turn" });
  }

  async open() {
    await this.#show();
    store.addEventListener("sessions", this.#changed);
  }

  close() {
    store.removeEventListener("sessions", this.#changed);
  }

  /** A turn that is over never changes; one that is not is read again when its session has changed. */
  #changed = () => {
    const { rev } = store.sessions.get(this.sessionId) ?? {};
    if (this.turn?.status === "pending" && rev !== this.rev) this.#show();
    this.rev = rev;
  };

  async #show() {
    try {
      [this.session, this.turn] = await Promise.all([
        get(this.path, { messages: "none" }),
        get(`${this.path}/turns/${this.turnId}`),
      ]);
      this.messages = await this.#messages();
    } catch (problem) {
      this.element.replaceChildren(problemPage(problem));
      return;
    }
    this.title = `Turn ${this.turn.sequenceNumber}`;
    this.element.replaceChildren(
      this.#header(),
      h("div", { class: "scroller", tabindex: "0" }, h("div", { class: "column" }, this.#content())),
    );
  }

  /** What was said and done in the turn. */
  async #messages() {
    const since = new Date(new Date(this.turn.creationDate) - 1).toISOString();
    const { messages } = await get(`${this.path}/messages`, { since, limit: 1000 });
    return messages.filter((message) => message.turnId === this.turnId);
  }

  #header() {
    const { sequenceNumber, status, stopReason } = this.turn;
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
        h("h1", { tabindex: "-1" }, `Turn ${sequenceNumber}`),
        h(
          "p",
          { class: "about" },
          statusMark(status === "failed" ? "error" : status),
          stopReason && h("span", {}, stopReason.replaceAll("_", " ")),
        ),
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
          this.element
            .querySelector(".column")
            .prepend(h("p", { class: "problem", role: "alert" }, problem.message));
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

  #content() {
    const { turn, messages } = this;
    return [
      part("Instruction", h("div", { class: "prompt-box" }, this.#asked())),
      part("Answer", this.#answer()),
      turn.errors.length > 0 && part("What went wrong", list(turn.errors, "problem")),
      turn.warnings.length > 0 && part("Warnings", list(turn.warnings)),
      part("When", turnTimeline(turn, messages)),
      turn.chunkRefs.length > 0 && part("Sources", sources(turn.chunkRefs)),
      turn.activeFileRefs.length > 0 && part("Files", files(turn.activeFileRefs)),
      part("Chain", turnChain(turn)),
      part("What was sent", turnRequest(turn)),
      part("Facts", turnFacts(turn)),
    ];
  }

  #asked() {
    const { fullInstructionUrl, instructionSummary } = this.turn;
    const plain = (element, text) => {
      element.classList.add("plain");
      element.textContent = text;
    };
    return wholeText(fullInstructionUrl ? instructionSummary : this.#instruction, fullInstructionUrl, plain);
  }

  #answer() {
    const { fullAgentAnswerUrl, agentAnswerSummary, status } = this.turn;
    const said = this.messages.findLast(({ role, content }) => role === "agent" && content.type === "text");
    const text = fullAgentAnswerUrl ? agentAnswerSummary : (said?.content.text ?? agentAnswerSummary);
    if (text) return wholeText(text, fullAgentAnswerUrl, showMarkdown);
    return h("p", { class: "muted" }, status === "pending" ? "It is being worked on." : "There is none.");
  }
}

const part = (title, content) =>
  content && h("section", { class: "part", "aria-label": title }, h("h2", {}, title), content);

const list = (sentences, kind = "") =>
  h(
    "ul",
    { class: kind },
    sentences.map((sentence) => h("li", {}, sentence)),
  );
