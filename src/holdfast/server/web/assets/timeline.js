// The messages of a session, of which only those near the eye are on the page.
//
// They stand in stretches of fifty, and fifty stretches on a shelf. A shelf or stretch that is far
// away is an empty box as high as it was, or as it may be; coming near, it is filled, from the
// server if need be. So a session of 100,000 messages opens at its end at once, and its scroll bar
// tells the truth.

import { arrange, h } from "./dom.js";
import { whenReachable } from "./feed.js";
import { Folds } from "./folds.js";
import { html } from "./markdown.js";
import { messageView } from "./message.js";
import { dayOf, today } from "./times.js";

const STRETCH = 50; // messages
const SHELF = 50; // stretches
const NEAR = "1600px 0px";
const LIKELY_HEIGHT = 90; // of a message that was never shown
const HIGHEST = 12_000_000; // of all of them together: browsers know no higher boxes than 33 million
const AT_END = 48;
const PATIENCE = 250; // milliseconds until a text is shown plain first
const INPUTS = ["wheel", "touchmove", "keydown", "pointerdown"];
const INPUT_MOVES = 500; // milliseconds after it

export class Timeline {
  #shelves = [];
  #views = new Map();
  #near = new Set();
  #top = 0;
  #height = 0;
  #touched = -Infinity;
  #isOpen = false;

  constructor(conversation, scroller) {
    this.conversation = conversation;
    this.scroller = scroller;
    this.element = h("div", {
      class: "timeline",
      role: "log",
      "aria-label": "Conversation",
      "aria-live": "off",
    });
    this.folds = new Folds(conversation, () => this.#refold());
    this.followsEnd = true;
    const near = { root: scroller, rootMargin: NEAR };
    this.shelfObserver = new IntersectionObserver(
      (entries) => entries.forEach((each) => this.#shelfMoved(each)),
      near,
    );
    this.observer = new IntersectionObserver(
      (entries) => entries.forEach((each) => this.#stretchMoved(each)),
      near,
    );
    this.grown = new ResizeObserver(() => this.followsEnd && this.toEnd());
    this.grown.observe(this.element);
    this.grown.observe(scroller);
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    for (const input of INPUTS)
      scroller.addEventListener(input, () => (this.#touched = performance.now()), { passive: true });
    this.onscroll = () => {};
  }

  /** Stay at the end also when this element, which stands below, grows. */
  watch(element) {
    this.grown.observe(element);
  }

  /** Show the end, as far as it is known. What is above comes when the eye does. */
  async open() {
    this.#make();
    if (this.#last) await this.#fill(this.#last);
    this.toEnd();
    this.#isOpen = true;
    for (const shelf of this.#shelves) this.shelfObserver.observe(shelf.element);
  }

  close() {
    this.shelfObserver.disconnect();
    this.observer.disconnect();
    this.grown.disconnect();
    this.#near.clear();
  }

  /** Show what changed: messages that came or were replaced, and text that was added. */
  apply({ changed, grown, turns }) {
    const before = this.#last;
    this.#make();
    const touched = new Set();
    for (const message of changed) {
      const view = this.#views.get(message.id);
      if (view) view.update(message);
      else touched.add(this.#stretchOf(message.seq));
    }
    for (const { message, text } of grown) this.#views.get(message.id)?.grow(text);
    touched.delete(undefined); // on a shelf that is empty now
    for (const stretch of touched) if (stretch.shown || stretch === this.#last) this.#arrange(stretch);
    if (turns.length) for (const view of this.#views.values()) view.turnChanged?.();
    if (before && before !== this.#last && !this.followsEnd && !this.#near.has(before)) this.#empty(before);
  }

  toEnd() {
    this.followsEnd = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#noteScroll();
  }

  /** Bring a message before the eye, unfolding what it is folded into. */
  async show(seq) {
    const stretches = Math.ceil(this.conversation.lastSeq / STRETCH);
    const shelf = this.#shelves[Math.floor((Math.ceil(seq / STRETCH) - 1) / SHELF)];
    if (!shelf) return;
    this.followsEnd = false;
    this.folds.unfold(seq);
    if (!shelf.stretches.length) this.#furnish(shelf, stretches);
    if (!this.folds.areNone) this.#refold();
    const stretch = this.#stretchOf(seq);
    stretch?.element.scrollIntoView(); // so that it counts as near, and is not emptied
    if (stretch) await this.#fill(stretch);
    const found = this.#views.get(this.conversation.bySeq.get(seq)?.id)?.element;
    if (!found) return;
    this.element.querySelector(".found")?.classList.remove("found");
    found.classList.add("found");
    found.querySelectorAll("details").forEach((each) => (each.open = true));
    found.tabIndex = -1;
    found.focus({ preventScroll: true });
    found.scrollIntoView({ block: found.offsetHeight < this.scroller.clientHeight ? "center" : "start" });
  }

  get isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < AT_END;
  }

  // Shelves and stretches

  get #last() {
    return this.#shelves.at(-1)?.stretches.at(-1);
  }

  #stretchOf(seq) {
    const number = Math.ceil(seq / STRETCH) - 1;
    return this.#shelves[Math.floor(number / SHELF)]?.stretches[number % SHELF];
  }

  get #stretches() {
    return this.#shelves.flatMap((shelf) => shelf.stretches);
  }

  /** Room for all messages that there are; only what was or is the last shelf has its stretches at first. */
  #make() {
    const before = this.#shelves.at(-1);
    const stretches = Math.ceil(this.conversation.lastSeq / STRETCH);
    this.height = Math.min(LIKELY_HEIGHT * STRETCH, HIGHEST / Math.max(stretches, 1));
    const added = [];
    while (this.#shelves.length < Math.ceil(stretches / SHELF)) {
      const shelf = {
        first: this.#shelves.length * SHELF,
        stretches: [],
        element: h("div", { class: "shelf" }),
      };
      shelf.element.style.minHeight = `${this.height * SHELF}px`;
      shelf.element.shelf = shelf;
      this.#shelves.push(shelf);
      added.push(shelf.element);
    }
    this.element.append(...added);
    if (this.#isOpen) added.forEach((each) => this.shelfObserver.observe(each));
    if (before && added.length) this.#furnish(before, stretches);
    if (stretches) this.#furnish(this.#shelves.at(-1), stretches);
  }

  /** The stretches of a shelf, of `stretches` altogether. */
  #furnish(shelf, stretches) {
    const added = [];
    for (
      let number = shelf.first + shelf.stretches.length;
      number < Math.min(stretches, shelf.first + SHELF);
      number++
    ) {
      const stretch = {
        first: number * STRETCH + 1,
        last: (number + 1) * STRETCH,
        element: h("div", { class: "stretch" }),
        shown: false,
      };
      stretch.element.style.minHeight = `${this.height}px`;
      stretch.element.stretch = stretch;
      shelf.stretches.push(stretch);
      added.push(stretch.element);
      this.observer.observe(stretch.element);
    }
    shelf.element.style.minHeight = "";
    shelf.element.append(...added);
  }

  #shelfMoved({ target: { shelf }, isIntersecting }) {
    if (isIntersecting && !shelf.stretches.length) {
      this.#furnish(shelf, Math.ceil(this.conversation.lastSeq / STRETCH));
      if (!this.folds.areNone) this.#refold();
    } else if (!isIntersecting && shelf.stretches.length && shelf !== this.#shelves.at(-1)) {
      shelf.element.style.minHeight = `${shelf.element.offsetHeight}px`;
      shelf.stretches.filter((stretch) => stretch.shown).forEach((stretch) => this.#empty(stretch));
      shelf.stretches.forEach((stretch) => this.observer.unobserve(stretch.element));
      shelf.stretches = [];
      shelf.element.replaceChildren();
    }
  }

  #stretchMoved({ target: { stretch }, isIntersecting }) {
    if (isIntersecting) this.#near.add(stretch);
    else this.#near.delete(stretch);
    if (isIntersecting && !stretch.shown) this.#fill(stretch);
    else if (!isIntersecting && stretch.shown) this.#empty(stretch);
  }

  async #fill(stretch) {
    stretch.shown = true;
    const messages = await this.conversation.stretch(stretch.first, stretch.last).catch(() => null);
    if (!messages) {
      stretch.shown = false;
      whenReachable(() => this.#near.has(stretch) && !stretch.shown && this.#fill(stretch));
      return;
    }
    const texts = messages.filter(isFinalText).map((message) => html(message.content.text));
    await Promise.race([Promise.all(texts), new Promise((go) => setTimeout(go, PATIENCE))]);
    if (!stretch.shown) return;
    this.#arrange(stretch);
    const next = this.#stretchOf(stretch.last + 1);
    if (next?.element.childElementCount) this.#arrange(next); // now it is known whether it begins with another day
  }

  #empty(stretch) {
    if (stretch === this.#last) return;
    stretch.element.style.minHeight = `${stretch.element.offsetHeight}px`;
    stretch.shown = false;
    for (const message of this.conversation.known(stretch.first, stretch.last))
      this.#views.delete(message.id);
    stretch.element.replaceChildren();
    this.conversation.forget(stretch.first, stretch.last);
  }

  #arrange(stretch) {
    stretch.shown = true;
    const messages = this.conversation.known(stretch.first, stretch.last);
    // The last plan of a turn stands for those before it.
    const plans = new Map(messages.filter(isPlan).map(({ turnId, id }) => [turnId, id]));
    const elements = [];
    // Of what is before this stretch and not known, the day is taken for the same until it comes.
    const before = this.conversation.bySeq.get(stretch.first - 1) ?? messages[0];
    let day = stretch.first === 1 ? today() : before && dayOf(before.timestamp);
    for (const message of messages) {
      const view = this.#view(message);
      const isSuperseded = isPlan(message) && plans.get(message.turnId) !== message.id;
      view.element.hidden = this.folds.hides(message.seq) || isSuperseded;
      elements.push(...this.folds.cardsAt(message.seq));
      if (!view.element.hidden && dayOf(message.timestamp) !== day) {
        day = dayOf(message.timestamp);
        elements.push((view.day ??= h("p", { class: "day" }, day)));
      }
      elements.push(view.element);
      if (!view.element.hidden) elements.push(...this.folds.marksAt(message.seq));
    }
    stretch.element.style.minHeight = "";
    arrange(stretch.element, elements);
  }

  #view(message) {
    if (!this.#views.has(message.id)) this.#views.set(message.id, messageView(message, this.conversation));
    return this.#views.get(message.id);
  }

  // Folds

  #refold() {
    for (const shelf of this.#shelves) {
      shelf.element.hidden = this.#isAllFolded(shelf.first * STRETCH + 1, (shelf.first + SHELF) * STRETCH);
    }
    for (const stretch of this.#stretches) {
      stretch.element.hidden = this.#isAllFolded(stretch.first, stretch.last);
      if (stretch.shown) this.#arrange(stretch);
    }
  }

  /** Whether nothing is to be seen from one seq to another, not even a card. */
  #isAllFolded(first, last) {
    return this.folds.hides(first, last) && !this.folds.standAmong(first, last);
  }

  /** The folds are known only after the first messages are on the page. */
  foldsChanged() {
    const wereNone = this.folds.areNone;
    this.folds.update();
    if (!wereNone || !this.folds.areNone) this.#refold();
    for (const view of this.#views.values()) view.turnChanged?.();
  }

  questionsChanged() {
    for (const view of this.#views.values()) view.questionsChanged?.();
  }

  /**
   * Only the person leaves the end, by scrolling up. What becomes less moves it up too, and more may have
   * come below until that is told: without a hand on it, it was scrolled only where all is as high as before.
   */
  #scrolled() {
    const { scrollTop, scrollHeight } = this.scroller;
    const isByHand = scrollHeight === this.#height || performance.now() - this.#touched < INPUT_MOVES;
    if (this.isAtEnd) this.followsEnd = true;
    else if (scrollTop < this.#top && isByHand) this.followsEnd = false;
    this.#noteScroll();
    this.onscroll();
  }

  #noteScroll() {
    this.#top = this.scroller.scrollTop;
    this.#height = this.scroller.scrollHeight;
  }
}

const isFinalText = ({ role, content }) => content.type === "text" && role === "agent" && !content.partial;

const isPlan = ({ content }) => content.type === "plan";
