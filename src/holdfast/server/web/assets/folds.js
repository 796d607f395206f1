// What the agent is shown in place of messages, as the server says: which of them are hidden here for
// that, and the cards and marks that tell of it.

import { post } from "./api.js";
import { CompactionFold } from "./compaction-fold.js";
import { button, h, icon } from "./dom.js";
import { count } from "./times.js";
import { toast } from "./toast.js";

export class Folds {
  #folds = [];
  #shortened = new Map();
  #unfolded = new Set();
  #hidden = [];
  // What was made stays the same elements, so that they keep the focus.
  #cards = new Map();
  #parts = new Map();
  #marks = new Map();

  /** `toggled` is told that originals were shown or hidden. */
  constructor(conversation, toggled) {
    this.conversation = conversation;
    this.toggled = toggled;
  }

  /** Take what the agent is shown now. */
  update() {
    const { folds = [], gaps = [], shortened = [] } = this.conversation.layout;
    this.#folds = [...folds.map(summarised), ...gaps.map(leftOut)];
    this.#shortened = new Map(shortened.map((each) => [each.seq, each]));
    const ids = new Set(this.#folds.map(({ id }) => id));
    for (const id of this.#cards.keys()) if (!ids.has(id)) this.#cards.delete(id);
    this.#refold();
  }

  /** Whether the agent is shown everything as it was said. */
  get areNone() {
    return !this.#folds.length && !this.#shortened.size;
  }

  /** Whether all messages from one seq to another are hidden. */
  hides(first, last = first) {
    let next = first;
    for (const [from, to] of this.#hidden) {
      if (from > next) break;
      if (to >= next) next = to + 1;
    }
    return next > last;
  }

  /** Whether a card or the mark of a part stands among the messages from one seq to another. */
  standAmong(first, last) {
    return this.#folds.some(({ ranges }) => ranges.some(([from]) => first <= from && from <= last));
  }

  /** What stands before a message: cards, and where a fold goes on after what is not in it, a mark of that part. */
  cardsAt(seq) {
    return this.#folds.flatMap((fold) => {
      const part = fold.ranges.findIndex(([from]) => from === seq);
      return part < 0 ? [] : [part ? this.#partMark(fold, part) : this.#card(fold).element];
    });
  }

  /** What stands below a message that the agent is shown less of. */
  marksAt(seq) {
    if (!this.#shortened.has(seq)) return [];
    if (!this.#marks.has(seq)) {
      const undo = button("Undo", { class: "button quiet", onclick: () => this.#undo(this.#shortened.get(seq)) });
      undo.setAttribute("aria-label", "Undo: let the agent see this whole again");
      this.#marks.set(
        seq,
        h("p", { class: "shortened" }, icon("fold"), "The agent sees this shortened", undo),
      );
    }
    return [this.#marks.get(seq)];
  }

  /** Show the originals among which a message is. */
  unfold(seq) {
    for (const { id, ranges } of this.#folds)
      if (ranges.some(([first, last]) => first <= seq && seq <= last)) this.#unfolded.add(id);
    this.#refold();
  }

  #refold() {
    this.#hidden = this.#folds
      .filter(({ id }) => !this.#unfolded.has(id))
      .flatMap(({ ranges }) => ranges)
      .sort(([one], [other]) => one - other);
  }

  #card(fold) {
    const { id, compactionId } = fold;
    if (!this.#cards.has(id)) {
      const undo = () => this.#undo(this.#folds.find((each) => each.id === id));
      this.#cards.set(id, new CompactionFold(() => this.#toggle(id), undo));
    }
    const card = this.#cards.get(id);
    card.update({ ...this.conversation.compactions.get(compactionId), ...fold }, this.#unfolded.has(id));
    return card;
  }

  #partMark({ id, ranges }, part) {
    const [first, last] = ranges[part];
    const key = `${id} ${first}`;
    if (!this.#parts.has(key)) {
      const toggle = button("", { class: "button quiet", onclick: () => this.#toggle(id) });
      this.#parts.set(key, h("p", { class: "shortened part" }, icon("fold"), h("span"), toggle));
    }
    const mark = this.#parts.get(key);
    const [, told, toggle] = mark.children;
    const number = last - first + 1;
    told.textContent = `${number === 1 ? "1 message is" : `${count(number)} messages are`} in the summary above`;
    toggle.textContent = this.#unfolded.has(id) ? "Hide" : "Show";
    toggle.setAttribute("aria-expanded", String(this.#unfolded.has(id)));
    return mark;
  }

  #toggle(id) {
    if (!this.#unfolded.delete(id)) this.#unfolded.add(id);
    this.#refold();
    this.toggled();
  }

  async #undo({ compactionId }) {
    try {
      await post(`/api/sessions/${this.conversation.id}/compactions/${compactionId}/undo`);
    } catch (problem) {
      toast(problem.message, "problem");
    }
  }
}

const summarised = (fold) => ({ ...fold, id: `${fold.compactionId} ${fold.ranges[0][0]}` });

const leftOut = ({ compactionId, firstSeq, lastSeq }) => ({
  id: `gap ${firstSeq}`,
  compactionId,
  ranges: [[firstSeq, lastSeq]],
  summary: undefined,
});
