// What can be done with a session, besides talking in it.

import { patch, post, remove } from "./api.js";
import { go, sessionHref } from "./address.js";
import { ask, confirmed } from "./dialog.js";
import { button, h, iconButton } from "./dom.js";
import { canResume, isLive } from "./status.js";
import { nameOf, rawNameOf, store } from "./store.js";
import { toast } from "./toast.js";

export class SessionActions {
  /** Whether its agent is being started again, and cannot be told anything yet. */
  isStarting = false;

  /** `changed` is called when that changes. */
  constructor(conversation, changed) {
    this.conversation = conversation;
    this.changed = changed;
    this.path = `/api/sessions/${conversation.id}`;
    this.menu = h("div", { class: "menu", popover: "auto", id: `actions-${conversation.id}` });
    this.opener = iconButton("more", "What can be done", { popovertarget: this.menu.id });
    this.element = h("div", { class: "actions" }, this.opener, this.menu);
    this.menu.addEventListener("beforetoggle", () => this.#fillMenu());
  }

  async rename() {
    const name = await ask("Rename the session", {
      label: "Title",
      value: rawNameOf(this.conversation.session),
    });
    if (name !== null) await this.#do(patch(this.path, { title: name.trim() || null }));
  }

  async resume() {
    this.isStarting = true;
    this.changed();
    await this.#do(post(`${this.path}/resume`));
    this.isStarting = false;
    this.changed();
  }

  async fork() {
    const isModel = this.conversation.session.agentContextId;
    const meanwhile = isModel ? "Copying what was said…" : "Starting the agent…";
    const forked = await this.#do(post(`${this.path}/fork`), meanwhile);
    if (forked) go(sessionHref(forked.id));
  }

  /** It opens below its button, wherever that stands: over the page, a popover knows nothing of it. */
  #fillMenu() {
    this.menu.replaceChildren(...this.#items());
    const { bottom, right } = this.opener.getBoundingClientRect();
    this.menu.style.inset = `${bottom + 4}px ${document.body.clientWidth - right}px auto auto`;
  }

  #items() {
    const { session } = this.conversation;
    const item = (label, act, kind = "") =>
      h("button", { type: "button", class: kind, onclick: () => (this.menu.hidePopover(), act()) }, label);
    const saved = (label, format) =>
      h(
        "a",
        {
          href: `${this.path}/export?format=${format}`,
          download: "",
          onclick: () => this.menu.hidePopover(),
        },
        label,
      );
    return [
      item("Rename…", () => this.rename()),
      item("Fork", () => this.fork()),
      canResume(session) && item("Resume", () => this.resume()),
      h("hr"),
      saved("Export as Markdown", "markdown"),
      saved("Export as JSON", "json"),
      h("hr"),
      item("Summarise older messages", () => this.#compact()),
      isLive(session) && item("Complete", () => this.#do(post(`${this.path}/complete`))),
      isLive(session) && item("Cancel the session", () => this.#cancel()),
      session.status !== "archived" &&
        item("Archive", () => this.#do(patch(this.path, { status: "archived" }))),
      item("Delete…", () => this.#purge(), "dangerous"),
    ].filter(Boolean);
  }

  async #compact() {
    try {
      const { compaction } = await post(`${this.path}/compact`);
      if (!compaction) toast("There is nothing to gain from a summary yet.");
    } catch (problem) {
      toast(problem.message, "problem");
    }
  }

  async #cancel() {
    await this.#do(remove(this.path));
  }

  async #purge() {
    const name = nameOf(this.conversation.session);
    const sure = await confirmed(
      `Delete “${name}”?`,
      "The session and everything in it are gone for good.",
      "Delete",
    );
    if (!sure || !(await this.#answer(remove(this.path, { purge: true })))) return;
    store.dropSessions([this.conversation.id]);
    go("#/");
  }

  /** The session that came of it. */
  async #do(request, meanwhile) {
    const session = await this.#answer(request, meanwhile);
    if (session) store.putSessions([session]);
    return session;
  }

  /** What was asked for, or a sentence on why not. */
  async #answer(request, meanwhile) {
    if (meanwhile) toast(meanwhile);
    try {
      const session = await request;
      toast("");
      return session;
    } catch (problem) {
      toast(problem.message, "problem");
      return null;
    }
  }
}

export const newSessionButton = (onclick) =>
  button("New session", { class: "button primary", icon: "plus", onclick });
