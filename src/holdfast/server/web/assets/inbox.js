// Everything that waits for a person, of all agents, and what was settled last.

import { view } from "./address.js";
import { get } from "./api.js";
import { arrange, button, h, icon } from "./dom.js";
import { canNotify, notify } from "./notifications.js";
import { QuestionCard } from "./question-card.js";
import { store } from "./store.js";

const SETTLED = 12;

export class Inbox {
  #cards = new Map();
  #fetched = new Set();
  #wanted;
  #changed = () => this.#render();

  constructor() {
    this.title = "Inbox";
    this.waiting = h("div", { class: "cards" });
    this.settled = h("div", { class: "cards settled-cards" });
    this.nothing = h(
      "div",
      { class: "empty-page" },
      h("h2", {}, "Nothing waits for you"),
      h(
        "p",
        {},
        "When an agent asks a question or needs permission, it appears here, wherever the agent runs. The first answer counts.",
      ),
    );
    this.loading = h("p", { class: "note muted", role: "status" }, "Loading what waits for you…");
    this.heading = h("h1", { tabindex: "-1" }, "Inbox");
    this.count = h("p", { class: "about", role: "status" });
    this.announce = h("div", { class: "announce" });
    this.keys = this.#keys();
    this.later = h("h2", { class: "section" }, "Settled");
    this.element = h(
      "section",
      { class: "inbox", "aria-label": "Inbox" },
      h(
        "header",
        { class: "view-header" },
        h("a", { class: "icon-button back", href: "#/", "aria-label": "All sessions" }, icon("back")),
        h("div", { class: "titles" }, this.heading, this.count),
        this.announce,
      ),
      h(
        "div",
        { class: "scroller" },
        h(
          "div",
          { class: "column" },
          this.keys,
          this.loading,
          this.nothing,
          this.waiting,
          this.later,
          this.settled,
        ),
      ),
    );
    this.element.addEventListener("focusin", ({ target }) => this.#focused(target.closest(".question")));
  }

  async open() {
    store.addEventListener("questions", this.#changed);
    store.addEventListener("sessions", this.#changed);
    this.#offerNotifications();
    this.#render();
    this.goTo(view().id);
  }

  close() {
    store.removeEventListener("questions", this.#changed);
    store.removeEventListener("sessions", this.#changed);
  }

  /** Go to a set, as soon as its card is here; without one, to the first that waits. */
  goTo(id) {
    this.#wanted = id;
    if (!id) return this.#focus(this.#pending[0]);
    this.#current?.element.classList.remove("current");
    this.#goToWanted();
  }

  /** Move to the next or previous card. */
  step(by) {
    const cards = this.#pending;
    const at = cards.indexOf(this.#current);
    this.#focus(cards[Math.max(0, Math.min(cards.length - 1, at + by))]);
  }

  /** Take an option of the current card by its number. */
  choose(number) {
    this.#current?.choose(number);
  }

  get #current() {
    return this.#pending.find((card) => card.element.classList.contains("current"));
  }

  get #pending() {
    return [...this.waiting.children]
      .map((element) => this.#cards.get(element.dataset.set))
      .filter((card) => card?.isPending);
  }

  #render() {
    const waiting = store.waiting;
    const settled = [...store.questions.values()]
      .filter((set) => set.status !== "pending")
      .sort((a, b) => b.updatedAt.localeCompare(a.updatedAt))
      .slice(0, SETTLED);
    this.#fetchSessions(waiting);
    const hadFocus = this.waiting.contains(document.activeElement);
    arrange(
      this.waiting,
      waiting.map((set) => this.#card(set)),
    );
    arrange(
      this.settled,
      settled.map((set) => this.#card(set)),
    );
    this.loading.hidden = store.knowsQuestions;
    this.nothing.hidden = waiting.length > 0 || !store.knowsQuestions;
    this.keys.hidden = !waiting.length;
    this.later.hidden = !settled.length;
    this.count.textContent = waiting.length
      ? `${waiting.length} ${waiting.length === 1 ? "waits" : "wait"} for you`
      : settled.length
        ? "All answered"
        : "";
    // An answered card leaves; the hands stay on the keyboard.
    if (hadFocus && !this.waiting.contains(document.activeElement)) this.#focus(this.#pending[0]);
    if (this.#wanted) this.#goToWanted();
    else if (!this.#current && !this.settled.contains(document.activeElement))
      this.#focused(this.#pending[0]?.element);
  }

  /** Until it is there no card is current: a key that is meant for it must not answer another one. */
  #goToWanted() {
    const card = this.#cards.get(this.#wanted);
    if (card) this.#focus(card);
  }

  /** Sessions that the list has not come to yet. */
  #fetchSessions(sets) {
    for (const { sessionId } of sets) {
      if (!sessionId || store.sessions.has(sessionId) || this.#fetched.has(sessionId)) continue;
      this.#fetched.add(sessionId);
      get(`/api/sessions/${sessionId}`, { messages: "none" }).then(
        (session) => store.putSessions([session]),
        () => {},
      );
    }
  }

  #card(set) {
    if (!this.#cards.has(set.id)) {
      const card = new QuestionCard(set.id, { inInbox: true });
      card.element.tabIndex = -1;
      this.#cards.set(set.id, card);
    }
    const card = this.#cards.get(set.id);
    card.questionsChanged();
    return card.element;
  }

  #focus(card) {
    if (!card) return this.heading.focus({ preventScroll: true });
    card.element.focus({ preventScroll: true });
    card.element.scrollIntoView({ block: "nearest" });
    this.#focused(card.element);
  }

  #focused(element) {
    if (!element) return;
    this.#wanted = null;
    for (const card of this.#cards.values())
      card.element.classList.toggle("current", card.element === element);
  }

  #offerNotifications() {
    if (!canNotify()) return;
    const allow = button("Notify me", {
      icon: "bell",
      onclick: async () => (await notify()) && allow.remove(),
    });
    this.announce.replaceChildren(allow);
  }

  #keys() {
    const key = (name) => h("kbd", {}, name);
    return h(
      "p",
      { class: "keys muted small" },
      key("j"),
      key("k"),
      " next, previous  ·  ",
      key("1"),
      "…",
      key("9"),
      " answer",
    );
  }
}
