// All sessions, newest activity first, live. Pages are fetched as they are scrolled to.

import { get } from "./api.js";
import { address, filters, sessionHref, setFilters, view } from "./address.js";
import { arrange, button, h, icon } from "./dom.js";
import { statusMark } from "./status.js";
import { nameOf, store } from "./store.js";
import { ago, moment } from "./times.js";
import { isUnread } from "./unread.js";

const PAGE = 40;
const SEARCH_DELAY = 200;
const CLOCK = 30_000;

export class SessionList {
  #ids = new Set();
  #rows = new Map();
  #next = null;
  #loading = null;
  #query = 0;

  constructor() {
    this.search = h("input", {
      type: "search",
      placeholder: "Search",
      "aria-label": "Search sessions",
      oninput: () => this.#typed(),
    });
    this.status = filterSelect("status", "Status", STATUSES);
    this.agent = filterSelect("agent", "Agent", []);
    this.repo = filterSelect("repoId", "Repo", []);
    this.rows = h("ul", { class: "rows" });
    this.note = h("p", { class: "note muted", role: "status" });
    this.end = h("div", { class: "end" });
    this.element = h(
      "nav",
      { class: "session-list", "aria-label": "Sessions" },
      h("div", { class: "search" }, icon("search"), this.search, h("kbd", {}, "/")),
      h("div", { class: "filters" }, this.status, this.agent, this.repo),
      h("div", { class: "row-area" }, this.rows, this.note, this.end),
    );
    new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && this.#more(), {
      rootMargin: "600px",
    }).observe(this.end);
    address.addEventListener("filters", () => this.load());
    addEventListener("hashchange", () => this.#mark());
    store.addEventListener("sessions", () => this.#changed());
    store.addEventListener("questions", () => this.#render());
    store.addEventListener("repos", () => this.#choices());
    store.addEventListener(
      "deleted",
      ({ detail }) => (detail.forEach((id) => this.#ids.delete(id)), this.#render()),
    );
    addEventListener("storage", () => this.#render());
    setInterval(() => this.#rows.forEach((row) => row.tick()), CLOCK);
  }

  /** The first page for the filters of the address. */
  async load() {
    this.#choices();
    const { q = "" } = filters();
    if (this.search.value.trim() !== q) this.search.value = q;
    this.#query += 1;
    this.#ids.clear();
    this.#loading = null;
    await this.#page(undefined);
  }

  /** Move the focus up or down. */
  step(by) {
    const links = [...this.rows.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
  }

  async #more() {
    if (this.#next && !this.#loading) await this.#page(this.#next);
  }

  async #page(before) {
    const query = this.#query;
    const { status, agent, repoId, q } = filters();
    this.#loading = get("/api/sessions", { status, agent, repoId, q, order: "updated", limit: PAGE, before });
    try {
      const page = await this.#loading;
      if (query !== this.#query) return;
      this.#next = page.next;
      page.sessions.forEach(({ id }) => this.#ids.add(id));
      store.putSessions(page.sessions);
      this.#render();
      this.#noteNothing(page.total === 0 && Object.keys(filters()).length > 0);
    } catch (problem) {
      this.note.textContent = problem.message;
    } finally {
      if (query === this.#query) this.#loading = null;
    }
  }

  #noteNothing(isNothing) {
    const all = () => button("Show all", { class: "button quiet", onclick: clearFilters });
    this.note.replaceChildren(...(isNothing ? ["No session fits. ", all()] : []));
  }

  /** Sessions that changed have the newest activity: what fits the filters is at the top of the list. */
  #changed() {
    const oldest = this.#next ? (this.#shown().at(-1)?.updatedAt ?? "") : "";
    for (const session of store.sessions.values()) {
      if (!fits(session)) this.#ids.delete(session.id);
      else if (session.updatedAt >= oldest) this.#ids.add(session.id);
    }
    this.#render();
  }

  #shown() {
    const known = [...this.#ids].map((id) => store.sessions.get(id)).filter(Boolean);
    return known.sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1));
  }

  #render() {
    const waiting = new Set(store.waiting.map((set) => set.sessionId));
    const rows = this.#shown().map((session) => {
      const row = this.#rows.get(session.id) ?? new Row();
      this.#rows.set(session.id, row);
      row.update(session, waiting.has(session.id));
      return row.element;
    });
    arrange(this.rows, rows);
    this.#mark();
  }

  #mark() {
    const { id } = view();
    for (const [sessionId, row] of this.#rows) row.isCurrent(sessionId === id);
  }

  #choices() {
    fill(this.status, STATUSES);
    fill(
      this.agent,
      [...new Set([...store.agents, ...store.contexts].map(({ name }) => name))].map((name) => [name, name]),
    );
    fill(
      this.repo,
      [...store.repos.values()].map(({ id, name }) => [id, name]),
    );
  }

  #typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => setFilters({ q: this.search.value.trim() }), SEARCH_DELAY);
  }
}

class Row {
  #shown = "";

  constructor() {
    this.name = h("span", { class: "name" });
    this.time = h("time", {});
    this.about = h("span", { class: "about" });
    this.link = h("a", {}, h("span", { class: "top" }, this.name, this.time), this.about);
    this.element = h("li", {}, this.link);
  }

  update(session, waits) {
    const unread = isUnread(session);
    const repo = store.repos.get(session.repoId);
    const state = waits ? "waiting" : session.hasPendingTurn ? "running" : session.status;
    const shown = [nameOf(session), state, session.updatedAt, unread, repo?.name].join("\0");
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.link.href = sessionHref(session.id);
    this.name.textContent = nameOf(session);
    this.element.classList.toggle("unread", unread);
    this.element.classList.toggle("waits", waits);
    this.about.replaceChildren(
      statusMark(state),
      h("span", {}, session.agent),
      ...(repo ? [h("span", {}, repo.name)] : []),
      ...(unread ? [h("span", { class: "sr-only" }, "unread")] : []),
    );
    this.updatedAt = session.updatedAt;
    this.time.dateTime = session.updatedAt;
    this.time.title = moment(session.updatedAt);
    this.tick();
  }

  tick() {
    this.time.textContent = ago(this.updatedAt);
  }

  isCurrent(is) {
    if (is) this.link.setAttribute("aria-current", "page");
    else this.link.removeAttribute("aria-current");
  }
}

const STATUSES = [
  ["active", "Active"],
  ["idle", "Idle"],
  ["completed", "Completed"],
  ["cancelled", "Cancelled"],
  ["error", "Failed"],
  ["archived", "Archived"],
];

function filterSelect(name, label, choices) {
  const element = h(
    "select",
    { "aria-label": label, dataset: { filter: name }, onchange: () => setFilters({ [name]: element.value }) },
    h("option", { value: "" }, label),
  );
  fill(element, choices);
  return element;
}

function fill(element, choices) {
  const options = choices.map(([id, name]) => h("option", { value: id }, name));
  element.replaceChildren(element.firstElementChild, ...options);
  element.value = filters()[element.dataset.filter] ?? "";
  element.classList.toggle("set", element.value !== "");
}

const clearFilters = () => setFilters({ status: "", agent: "", repoId: "", q: "" });

function fits(session) {
  const { status, agent, repoId, q } = filters();
  return (
    (!status || status.split(",").includes(session.status)) &&
    (!agent || session.agent === agent) &&
    (!repoId || session.repoId === repoId) &&
    (!q || nameOf(session).toLowerCase().includes(q.toLowerCase()))
  );
}
