// One open session: its messages, turns and folds, as they are and as they change.
//
// Messages are known in stretches: the latest come first, others when they are scrolled to.
// Changes replace rows by id, and add text to messages that are being said.

import { get } from "./api.js";
import { Feed } from "./feed.js";
import { store } from "./store.js";

const KNOWN_TURNS = 100;

export class Conversation extends EventTarget {
  messages = new Map();
  bySeq = new Map();
  turns = new Map();
  compactions = new Map();
  layout = {}; // what the agent is shown in place of messages
  #feed = null;
  #layoutIsStale = false;
  #readsLayout = false;

  constructor(session, rev) {
    super();
    this.id = session.id;
    this.rev = rev;
    this.lastSeq = 0;
    this.session = session;
  }

  static async open(id) {
    const { messages, ...session } = await get(`/api/sessions/${id}`, { messages: "latest" });
    const conversation = new Conversation(session, session.rev);
    store.putSessions([session]);
    conversation.put(messages);
    return conversation;
  }

  /** The rest of what is shown around the messages, and every change from now on. */
  async follow() {
    const after = Math.max(0, this.session.turnCount - KNOWN_TURNS);
    this.#layoutIsStale = this.session.compactionCount > 0;
    const [{ turns }] = await Promise.all([
      get(`/api/sessions/${this.id}/turns`, { after, limit: KNOWN_TURNS * 2 }),
      this.#readLayout(),
    ]);
    this.#putRows(this.turns, turns);
    this.#feed = new Feed(`/api/sessions/${this.id}/events`, {
      since: () => this.rev,
      every: 1000,
      ask: { change: () => get(`/api/sessions/${this.id}/events`, { since: this.rev, wait: 0 }) },
      listeners: { change: (changes) => this.apply(changes), gone: (why) => this.#lost(why.detail) },
      lost: (problem) => this.#lost(problem.message),
      signedOut: () => store.dispatchEvent(new Event("signed-out")),
    });
  }

  close() {
    this.#feed?.close();
  }

  apply({ session, messages, turns, compactions, deltas, rev }) {
    this.session = { ...this.session, ...session };
    if (session.statusReason === undefined) delete this.session.statusReason;
    store.putSessions([this.session]);
    this.#putRows(this.turns, turns);
    const changed = this.put(messages);
    const grown = [];
    for (const delta of deltas) {
      const message = this.messages.get(delta.messageId);
      if (!message || message.rev >= delta.rev) continue;
      message.content.text += delta.text;
      message.rev = delta.rev;
      grown.push({ message, text: delta.text });
    }
    this.rev = rev;
    this.#tell("change", { changed, grown, turns });
    this.#layoutIsStale ||= compactions.length > 0;
    this.#readLayout();
  }

  /** Take messages; those that are new or newer. */
  put(messages) {
    const changed = [];
    for (const message of messages) {
      const known = this.messages.get(message.id);
      if (known && known.rev >= message.rev) continue;
      this.messages.set(message.id, message);
      this.bySeq.set(message.seq, message);
      this.lastSeq = Math.max(this.lastSeq, message.seq);
      changed.push(message);
    }
    return changed;
  }

  /** The messages from one seq to another; asks the server for those that are not known. */
  async stretch(first, last) {
    const path = `/api/sessions/${this.id}/messages`;
    for (let after = first - 1; after !== null && after < last && !this.#knows(after + 1, last); ) {
      const { messages, next } = await get(path, { after, limit: last - after }); // long ones come one by one
      this.put(messages);
      after = next;
    }
    return this.known(first, last);
  }

  known(first, last) {
    const found = [];
    for (let seq = first; seq <= last; seq++) if (this.bySeq.has(seq)) found.push(this.bySeq.get(seq));
    return found;
  }

  /** Forget messages that are far from what is shown. */
  forget(first, last) {
    for (const message of this.known(first, last)) {
      this.messages.delete(message.id);
      this.bySeq.delete(message.seq);
    }
  }

  /** Turns that are not over: the first is being worked on, the others wait. */
  get pending() {
    return [...this.turns.values()]
      .filter((turn) => turn.status === "pending")
      .sort((a, b) => a.sequenceNumber - b.sequenceNumber);
  }

  /** Ask what the agent is shown, once a compaction was made or undone; what failed is asked again later. */
  async #readLayout() {
    if (this.#readsLayout) return;
    this.#readsLayout = true;
    while (this.#layoutIsStale) {
      this.#layoutIsStale = false;
      const read = await get(`/api/sessions/${this.id}/compactions`).catch(() => null);
      if (!read) {
        this.#layoutIsStale = true;
        break;
      }
      this.layout = read.layout;
      this.#putRows(this.compactions, read.compactions);
      this.#tell("folded");
    }
    this.#readsLayout = false;
  }

  #knows(first, last) {
    for (let seq = first; seq <= Math.min(last, this.lastSeq); seq++) if (!this.bySeq.has(seq)) return false;
    return true;
  }

  #putRows(known, rows) {
    for (const row of rows) if ((known.get(row.id)?.rev ?? -1) <= row.rev) known.set(row.id, row);
  }

  #lost(why) {
    this.close();
    this.#tell("lost", why);
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
