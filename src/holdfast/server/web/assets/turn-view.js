// A turn explained: what was asked, what came of it, from which sources, and when what happened.

import { get, post } from "./api.js";
import { go, sessionHref } from "./address.js";
import { button, h, icon } from "./dom.js";
import { json } from "./json.js";
import { showMarkdown } from "./markdown.js";
import { problemPage } from "./problem-page.js";
import { statusMark } from "./status.js";
import { store } from "./store.js";
import { count, duration, moment } from "./times.js";
import { turnTimeline } from "./turn-timeline.js";

const PAYLOADS = {
  fullInstructionUrl: "Whole instruction",
  fullAgentAnswerUrl: "Whole answer",
  openAIRequestPayloadUrl: "Request",
  openAIResponsePayloadUrl: "Response",
};

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
      this.turn = await get(`${this.path}/turns/${this.turnId}`);
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
      button("Send again", { onclick: () => this.#again() }),
    );
  }

  #content() {
    const { turn, messages } = this;
    const prompt =
      messages.find((message) => message.role === "user")?.content.text ?? turn.instructionSummary;
    const answer = messages.findLast((message) => message.role === "agent" && message.content.type === "text")
      ?.content.text;
    const rendered = h("div", { class: "text" });
    showMarkdown(rendered, answer ?? turn.agentAnswerSummary ?? "");
    return [
      part("Instruction", h("div", { class: "text plain prompt-box" }, prompt)),
      part(
        "Answer",
        answer || turn.agentAnswerSummary
          ? rendered
          : h(
              "p",
              { class: "muted" },
              turn.status === "pending" ? "It is being worked on." : "There is none.",
            ),
      ),
      turn.errors.length > 0 && part("What went wrong", list(turn.errors, "problem")),
      turn.warnings.length > 0 && part("Warnings", list(turn.warnings)),
      part("When", turnTimeline(turn, messages)),
      turn.chunkRefs.length > 0 && part("Sources", sources(turn.chunkRefs)),
      turn.activeFileRefs.length > 0 && part("Files", files(turn.activeFileRefs)),
      part("Facts", this.#facts()),
      ...this.#payloads(),
    ];
  }

  #facts() {
    const { turn } = this;
    const fact = (name, value) => value && [h("dt", {}, name), h("dd", {}, value)];
    return h(
      "dl",
      { class: "facts" },
      fact("Asked by", turn.createdByUser),
      fact("Asked", moment(turn.creationDate)),
      fact("Ended", turn.status !== "pending" && moment(turn.statusTimeStamp)),
      fact(
        "Took",
        turn.status !== "pending" && duration(new Date(turn.statusTimeStamp) - new Date(turn.creationDate)),
      ),
      fact("Tokens", `${count(turn.usage.input)} in · ${count(turn.usage.output)} out`),
      fact("Model", turn.openAIModel),
      fact("Response", turn.openAIResponseId && h("code", {}, turn.openAIResponseId)),
      fact("Mode", turn.mode),
      fact("Id", h("code", {}, turn.id)),
    );
  }

  /** Payloads may be large: each is fetched when it is unfolded. */
  #payloads() {
    const kept = Object.entries(PAYLOADS).filter(([name]) => this.turn[name]);
    return kept.map(([name, label]) => {
      const body = h("div", {});
      const element = h("details", { class: "card payload" }, h("summary", {}, label), body);
      element.addEventListener("toggle", async () => {
        if (!element.open || body.childElementCount) return;
        body.replaceChildren(
          await get(this.turn[name]).then(json, (problem) => h("p", { class: "problem" }, problem.message)),
        );
      });
      return element;
    });
  }

  async #again() {
    const prompt =
      this.messages.find((message) => message.role === "user")?.content.text ?? this.turn.instructionSummary;
    try {
      await post(`${this.path}/prompt`, { text: prompt });
      go(sessionHref(this.sessionId));
    } catch (problem) {
      this.element
        .querySelector(".column")
        .prepend(h("p", { class: "problem", role: "alert" }, problem.message));
    }
  }
}

const part = (title, content) => h("section", { class: "part" }, h("h2", {}, title), content);

const list = (sentences, kind = "") =>
  h(
    "ul",
    { class: kind },
    sentences.map((sentence) => h("li", {}, sentence)),
  );

const sources = (refs) =>
  h(
    "ul",
    { class: "sources" },
    refs.map(({ path, startLine, endLine, contentHash }) =>
      h("li", {}, h("code", {}, `${path}:${startLine}–${endLine}`), h("small", {}, contentHash)),
    ),
  );

const files = (refs) =>
  h(
    "ul",
    { class: "sources" },
    refs.map(({ path, contentHash, sizeBytes, wasSentToLLM, wasTooLargeToSend }) =>
      h(
        "li",
        {},
        h("code", {}, path),
        h(
          "span",
          { class: "tag" },
          wasSentToLLM ? "sent" : wasTooLargeToSend ? "too large to send" : "not sent",
        ),
        h("small", {}, `${count(sizeBytes)} bytes · ${contentHash}`),
      ),
    ),
  );
