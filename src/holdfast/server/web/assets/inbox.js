// Everything that waits for a person, of all agents, and what was settled last.

import { view } from "./address.js";
import { get } from "./api.js";
import { arrange, button, h, icon } from "./dom.js";
import { canNotify, notify } from "./notifications.js";
import { chooseOption, goToCard, QuestionCard } from "./question-card.js";
import { store } from "./store.js";

const SETTLED = 12;

export class Inbox {
  #cards = new Map();
  #fetched = new Set();
  #wanted;
  #place = 0; // of the card that had the focus last, among those that wait
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

  /** Go to a set, as soon as its card is here. Until then no key that is meant for it answers another one. */
  goTo(id) {
    this.waiting.querySelector(".current")?.classList.remove("current");
    this.heading.focus({ preventScroll: true });
    this.#wanted = id;
    this.#goToWanted();
  }

  /** Move to the next or previous card. The next one after one that left is what stands in its place. */
  step(by) {
    const cards = [...this.waiting.querySelectorAll(".pending")];
    const current = cards.findIndex((card) => card.matches(".current"));
    const at = current >= 0 ? current : by > 0 ? this.#place - 1 : this.#place;
    const next = cards[Math.max(0, Math.min(cards.length - 1, at + by))];
    if (next) goToCard(next);
  }

  /** Take an option of the current card by its number. */
  choose(number) {
    chooseOption(number);
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
    // An answered card leaves, and the focus goes on; which one is answered next, the person says.
    if (hadFocus && !this.waiting.contains(document.activeElement)) {
      const { children } = this.waiting;
      (children[this.#place] ?? children[children.length - 1] ?? this.heading).focus({ preventScroll: true });
    }
    this.#goToWanted();
  }

  #goToWanted() {
    const card = this.#cards.get(this.#wanted);
    if (card) goToCard(card.element);
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
      this.#cards.set(set.id, new QuestionCard(set.id, { inInbox: true }));
    }
    const card = this.#cards.get(set.id);
    card.questionsChanged();
    return card.element;
  }

  #focused(card) {
    if (!card) return;
    this.#wanted = null;
    this.#place = Math.max(0, [...this.waiting.children].indexOf(card));
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
      " answer the one you are at",
    );
  }
}
