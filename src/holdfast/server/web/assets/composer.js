// Where a person writes to the agent, with the prompts that wait their turn above it.

import { instruct, post, Unanswered, Unreachable } from "./api.js";
import { button, h, icon, iconButton } from "./dom.js";
import { draftOf, keepDraft } from "./draft.js";
import { whenReachable } from "./feed.js";
import { canResume, isLive } from "./status.js";

const ENDED = {
  completed: "This session is completed.",
  cancelled: "This session was cancelled.",
  error: "This session ended in an error. What was said can be taken along into a fork.",
  archived: "This session is archived.",
};

export class Composer {
  #queued = null;

  /** `actions` resumes and forks; `sent` is told that a prompt was accepted. */
  constructor(conversation, actions, sent) {
    this.conversation = conversation;
    this.actions = actions;
    this.sent = sent;
    this.text = h("textarea", {
      rows: 1,
      placeholder: "Tell the agent what to do",
      "aria-label": "Prompt",
      "aria-keyshortcuts": "Enter",
      oninput: () => this.#fit(),
      onkeydown: (event) => this.#typed(event),
    });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.stop = iconButton("stop", "Stop the turn (s)", {
      class: "icon-button stop",
      onclick: () => this.stopTurn(),
    });
    this.send = h(
      "button",
      { type: "submit", class: "icon-button send", "aria-label": "Send", title: "Send (Enter)" },
      icon("send"),
    );
    this.queue = h("ol", { class: "queue", tabindex: "0", "aria-label": "Prompts that wait" });
    this.form = h(
      "form",
      { class: "composer", onsubmit: (event) => this.#submit(event) },
      this.text,
      h("div", { class: "buttons" }, this.stop, this.send),
    );
    this.ended = h("div", { class: "ended" });
    this.element = h("div", { class: "composer-area" }, this.queue, this.problem, this.form, this.ended);
    this.text.value = draftOf(conversation.id);
    this.update();
    requestAnimationFrame(() => this.#fit());
  }

  update() {
    const { session, pending } = this.conversation;
    const takes = isLive(session) && !this.actions.isStarting;
    this.form.hidden = !takes;
    this.ended.hidden = takes;
    this.stop.hidden = !pending.length;
    if (!takes) this.#showEnd(session);
    this.#showQueue(pending.slice(1));
  }

  focus() {
    this.text.focus();
  }

  /** Send this text now. */
  async prompt(text) {
    this.problem.hidden = true;
    try {
      await instruct(this.conversation.session, text);
      this.sent();
      return true;
    } catch (problem) {
      this.#say(problem);
      return false;
    }
  }

  async #submit(event) {
    event.preventDefault();
    const text = this.text.value.trim();
    if (!text || this.send.disabled) return;
    this.send.disabled = true;
    this.#write("");
    if (!(await this.prompt(text))) this.#write([text, this.text.value].filter(Boolean).join("\n"));
    this.send.disabled = false;
  }

  #write(text) {
    this.text.value = text;
    this.#fit();
  }

  /** Stop what the agent is doing; the session goes on. */
  async stopTurn() {
    if (!this.conversation.pending.length) return;
    try {
      await post(`/api/sessions/${this.conversation.id}/cancel`);
    } catch (problem) {
      this.#say(problem);
    }
  }

  /** A finger has no Shift, but a button to send with. */
  #typed(event) {
    if (!matchMedia("(hover: hover)").matches) return;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.form.requestSubmit();
    }
  }

  #fit() {
    keepDraft(this.conversation.id, this.text.value);
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight, 240)}px`;
    this.send.classList.toggle("ready", this.text.value.trim() !== "");
  }

  #showQueue(waiting) {
    const shown = waiting.map((turn) => turn.id).join();
    if (shown === this.#queued) return;
    this.#queued = shown;
    this.queue.hidden = !waiting.length;
    this.queue.replaceChildren(
      ...waiting.map((turn, index) =>
        h(
          "li",
          {},
          h("span", { class: "tag" }, index === 0 ? "next" : `${index + 1}.`),
          h("span", {}, turn.instructionSummary),
        ),
      ),
    );
  }

  #showEnd(session) {
    if (this.actions.isStarting) {
      this.ended.replaceChildren(h("p", {}, "Starting the agent…"));
      return;
    }
    this.ended.replaceChildren(
      h("p", {}, ENDED[session.status]),
      h(
        "div",
        { class: "row" },
        canResume(session) &&
          button("Resume", { class: "button primary", onclick: () => this.actions.resume() }),
        button("Fork", { onclick: () => this.actions.fork() }),
      ),
    );
  }

  /** That the server cannot be reached is over once it is back; that it may have done something is not. */
  #say(problem) {
    this.problem.hidden = false;
    this.problem.textContent = problem.message;
    if (problem instanceof Unreachable && !(problem instanceof Unanswered))
      whenReachable(() => (this.problem.hidden = true));
  }
}
