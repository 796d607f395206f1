// A session: what is said and done in it, live, and where to answer.

import { post } from "./api.js";
import { AskedQuestions } from "./asked-questions.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";
import { button, h, icon, iconButton } from "./dom.js";
import { problemPage } from "./problem-page.js";
import { chooseOption, goToCard, isInSight } from "./question-card.js";
import { SessionActions } from "./session-actions.js";
import { SessionDetails } from "./session-details.js";
import { nameOf, store } from "./store.js";
import { SUGGESTIONS } from "./suggestions.js";
import { Timeline } from "./timeline.js";
import { toast } from "./toast.js";
import { statusMark } from "./status.js";
import { markRead } from "./unread.js";

const ANNOUNCED = {
  waiting: "The agent waits for your answer.",
  running: "The agent works.",
  error: "The session ended in an error.",
};

export class SessionView {
  /** With `seq`, it opens at that message and not at its end. */
  constructor(id, seq) {
    this.id = id;
    this.seq = seq;
    this.element = h("section", { class: "session", "aria-label": "Session" });
  }

  async open() {
    try {
      this.conversation = await Conversation.open(this.id);
      this.#build();
      await this.#fill();
    } catch (problem) {
      this.element.replaceChildren(problemPage(problem));
    }
  }

  async #fill() {
    await this.timeline.open();
    this.#update();
    this.#questionsChanged = () => {
      this.timeline.questionsChanged();
      this.#update();
    };
    store.addEventListener("questions", this.#questionsChanged);
    this.conversation.addEventListener("change", ({ detail }) => this.#changed(detail));
    this.conversation.addEventListener("folded", () => this.timeline.foldsChanged());
    this.conversation.addEventListener("lost", ({ detail }) =>
      this.element.replaceChildren(problemPage(new Error(detail))),
    );
    await this.conversation.follow();
    this.timeline.foldsChanged();
    this.#update();
    if (this.seq) await this.timeline.show(this.seq);
    else if (matchMedia("(hover: hover)").matches) this.composer.focus();
  }

  close() {
    this.conversation?.close();
    this.timeline?.close();
    store.removeEventListener("questions", this.#questionsChanged);
  }

  /** Take an option of the current question by its number; where there is none, go to one, and take nothing. */
  choose(number) {
    if (this.element.querySelector(".question.current")) return chooseOption(number);
    const waiting = [...this.element.querySelectorAll(".question.pending")];
    const card = waiting.find(isInSight) ?? waiting[0];
    if (card) goToCard(card);
  }

  get title() {
    return this.conversation ? nameOf(this.conversation.session) : "Session";
  }

  /** Close what lies over it, if something does. */
  escape() {
    const isOver = this.detailsButton?.checkVisibility() && this.element.classList.contains("with-details");
    if (isOver) {
      this.#toggleDetails();
      this.detailsButton.focus();
    }
    return isOver;
  }

  #toggleDetails() {
    const isOpen = this.element.classList.toggle("with-details");
    this.detailsButton.setAttribute("aria-expanded", String(isOpen));
  }

  #questionsChanged = () => {};

  #build() {
    const { conversation } = this;
    this.actions = new SessionActions(conversation, () => this.composer.update());
    this.composer = new Composer(conversation, this.actions, () => this.timeline.toEnd());
    this.details = new SessionDetails(conversation, (what, body) => this.#set(what, body));
    this.detailsButton = iconButton("panel", "Details", {
      class: "icon-button details-button",
      "aria-expanded": "false",
      onclick: () => this.#toggleDetails(),
    });
    this.heading = h("h1", { tabindex: "-1" });
    this.about = h("p", { class: "about" });
    this.announcement = h("p", { class: "sr-only", role: "status" });
    this.empty = h("div", { class: "empty-session" });
    this.latest = button("Latest", {
      class: "button latest",
      icon: "down",
      hidden: true,
      onclick: () => this.timeline.toEnd(),
    });
    this.scroller = h("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "Messages" });
    this.timeline = new Timeline(conversation, this.scroller);
    this.timeline.onscroll = () => (this.latest.hidden = this.timeline.isAtEnd);
    this.asked = new AskedQuestions(conversation);
    this.timeline.watch(this.asked.element);
    this.scroller.append(this.empty, this.timeline.element, this.asked.element);
    this.element.replaceChildren(
      h(
        "div",
        { class: "conversation" },
        h(
          "header",
          { class: "view-header" },
          h("a", { class: "icon-button back", href: "#/", "aria-label": "All sessions" }, icon("back")),
          h("div", { class: "titles" }, this.heading, this.about),
          this.detailsButton,
          this.actions.element,
        ),
        h("div", { class: "scroll-area" }, this.scroller, this.latest),
        this.announcement,
        this.composer.element,
      ),
      this.details.element,
    );
  }

  #changed(changes) {
    const began = performance.now();
    this.timeline.apply(changes);
    this.#update(changes);
    globalThis.measured?.push(performance.now() - began); // only a benchmark asks for it
  }

  #update(changes) {
    const { session, pending } = this.conversation;
    const repo = store.repos.get(session.repoId) ?? session.repo;
    const waiting = store.waitingIn(session.id);
    const name = nameOf(session);
    if (this.heading.textContent !== name) {
      this.heading.textContent = name;
      this.heading.title = name;
      document.dispatchEvent(new Event("title-changed"));
    }
    const state = waiting.length ? "waiting" : pending.length ? "running" : session.status;
    const facts = `${state} ${session.statusReason} ${repo?.name}`;
    if (this.#facts !== facts) {
      this.#facts = facts;
      this.about.replaceChildren(
        statusMark(state, session.statusReason),
        h("span", {}, session.agent),
        ...(repo ? [h("span", {}, repo.name, repo.branch && [" ", h("code", {}, repo.branch)])] : []),
      );
      this.announcement.textContent = ANNOUNCED[state] ?? "";
    }
    const hasAnswered = changes?.turns.some(({ status }) => status === "completed");
    if (hasAnswered && !ANNOUNCED[state]) this.announcement.textContent = "The agent has answered.";
    this.asked.update(waiting);
    this.composer.update();
    this.details.update(changes);
    this.#showEmpty(session);
    markRead(session);
  }

  #facts = "";

  #showEmpty(session) {
    const isEmpty = this.conversation.lastSeq === 0;
    this.empty.hidden = !isEmpty;
    if (!isEmpty || this.empty.childElementCount) return;
    const isDemo = session.agent === "demo";
    const suggestions = SUGGESTIONS.map(({ label, sentence, prompt }) =>
      h(
        "button",
        { type: "button", class: "suggestion", onclick: () => this.#suggested(prompt) },
        h("strong", {}, label),
        h("span", {}, sentence),
      ),
    );
    this.empty.replaceChildren(
      h("h2", {}, isDemo ? "The demo agent is ready" : `${session.agent} is ready`),
      h(
        "p",
        {},
        isDemo
          ? "It needs no account and does as it is told. Try one of these:"
          : "Tell it what to do. It asks you before it does what needs your permission.",
      ),
      ...(isDemo ? [h("div", { class: "suggestions" }, suggestions)] : []),
    );
  }

  /** Send what was suggested, once, however often it is clicked. */
  async #suggested(prompt) {
    const all = this.empty.querySelectorAll(".suggestion");
    all.forEach((each) => (each.disabled = true));
    if (await this.composer.prompt(prompt)) return;
    all.forEach((each) => (each.disabled = false));
  }

  /** Have the agent take a setting; whether it did. */
  async #set(what, body) {
    try {
      store.putSessions([await post(`/api/sessions/${this.id}/${what}`, body)]);
      return true;
    } catch (problem) {
      toast(problem.message, "problem");
      return false;
    }
  }
}
