// All sessions, newest activity first, live. Pages are fetched as they are scrolled to.
//
// A search also finds what was said: then a row shows the message, and leads to it. Whether a session
// that goes on has the words by now, only the server knows, so it is asked again a little later.

import { get, Unreachable } from "./api.js";
import { address, filters, messageHref, sessionHref, setFilters, view } from "./address.js";
import { arrange, button, h, icon } from "./dom.js";
import { whenReachable } from "./feed.js";
import { statusMark } from "./status.js";
import { nameOf, store } from "./store.js";
import { ago, moment } from "./times.js";
import { isUnread } from "./unread.js";

const PAGE = 40;
const STEP = 20; // rows, by which those on the page change
const SEARCH_DELAY = 200;
const SEARCH_AGAIN = 2000;
const CLOCK = 30_000;

export class SessionList {
  #ids = new Set();
  #matches = new Map();
  #rows = new Map();
  #height = 0; // of a row
  #first = 0; // of those on the page
  #next = null;
  #loading = null;
  #query = 0;

  constructor() {
    this.search = h("input", {
      type: "search",
      placeholder: "Search titles and messages",
      "aria-label": "Search titles and messages",
      oninput: () => this.#typed(),
    });
    this.status = filterSelect("status", "Status", STATUSES);
    this.agent = filterSelect("agent", "Agent", []);
    this.repo = filterSelect("repoId", "Repo", []);
    this.rows = h("ul", { class: "rows" });
    this.note = h("p", { class: "note muted", role: "status" });
    this.end = h("div", { class: "end" });
    this.area = h("div", { class: "row-area" }, this.rows, this.note, this.end);
    this.area.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.element = h(
      "nav",
      { class: "session-list", "aria-label": "Sessions" },
      h("div", { class: "search" }, icon("search"), this.search, h("kbd", {}, "/")),
      h("div", { class: "filters" }, this.status, this.agent, this.repo),
      this.area,
    );
    this.nearEnd = new IntersectionObserver((seen) => seen.at(-1).isIntersecting && this.#more(), {
      rootMargin: "600px",
    });
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
    addEventListener("read", () => this.#render());
    setInterval(() => this.#rows.forEach((row) => row.tick()), CLOCK);
  }

  /** The first page for the filters of the address. */
  async load() {
    this.#choices();
    const { q = "" } = filters();
    clearTimeout(this.typing);
    if (this.search.value.trim() !== q) this.search.value = q;
    this.#query += 1;
    this.#ids.clear();
    this.#matches.clear();
    clearTimeout(this.again);
    this.again = null;
    this.#loading = null;
    this.#next = null;
    await this.#page(undefined);
  }

  /** Move the focus up or down, from the session that is open if it is nowhere in the list. */
  step(by) {
    const links = [...this.rows.querySelectorAll("a")];
    const focused = links.indexOf(document.activeElement);
    const at = focused >= 0 ? focused : links.findIndex((link) => link.hasAttribute("aria-current"));
    links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
  }

  async #more() {
    if (this.#next && !this.#loading) await this.#page(this.#next);
  }

  async #page(before) {
    const query = this.#query;
    this.#loading = get("/api/sessions", { ...wanted(), before });
    try {
      const page = await this.#loading;
      if (query !== this.#query) return;
      this.#next = page.next;
      this.#put(page);
      this.#noteFound(page);
      this.#watchEnd();
    } catch (problem) {
      if (query === this.#query) this.#noteProblem(problem, before);
    } finally {
      if (query === this.#query) this.#loading = null;
    }
  }

  /** Anew after each page: one that does not fill the column leaves its end in sight, which is no change. */
  #watchEnd() {
    this.nearEnd.unobserve(this.end);
    this.nearEnd.observe(this.end);
  }

  #put({ sessions }) {
    for (const { match, ...session } of sessions) {
      this.#ids.add(session.id);
      if (match) this.#matches.set(session.id, match);
      store.putSessions([session]);
    }
    this.#render();
  }

  #noteProblem(problem, before) {
    const query = this.#query;
    this.#render();
    const isRefused = problem.status < 500 && Object.keys(filters()).length;
    if (isRefused) this.note.replaceChildren("The address has a filter that is not known. ", showAll());
    else this.note.textContent = problem.message;
    if (problem instanceof Unreachable) whenReachable(() => query === this.#query && this.#page(before));
  }

  /** What there is to know about a page besides its sessions. */
  #noteFound({ total, unread = 0, isAll = true }) {
    const isNothing = total === 0 && Object.keys(filters()).length > 0;
    const number = unread.toLocaleString();
    this.note.replaceChildren(
      ...(unread ? [`${number} ${unread === 1 ? "message is" : "messages are"} still to be read. `] : []),
      ...(isAll ? [] : ["Those words are everywhere: only the newest messages with them were looked at. "]),
      ...(isNothing && !unread ? ["No session fits. ", showAll()] : []),
    );
    if (unread) this.#searchAgain();
  }

  /** Sessions go on, and words of older messages become known: see whether more fits by now. */
  #searchAgain() {
    if (this.again) return; // however fast sessions change, it comes
    const query = this.#query;
    this.again = setTimeout(async () => {
      this.again = null;
      try {
        const page = await get("/api/sessions", wanted());
        if (query !== this.#query) return;
        this.#put(page);
        this.#noteFound(page);
      } catch (problem) {
        if (problem instanceof Unreachable) whenReachable(() => query === this.#query && this.#searchAgain());
      }
    }, SEARCH_AGAIN);
  }

  /** Sessions that changed have the newest activity: what fits the filters is at the top of the list. */
  #changed() {
    const oldest = this.#next ? (this.#shown().at(-1)?.updatedAt ?? "") : "";
    const asked = wanted();
    for (const session of store.sessions.values()) {
      if (!fits(session, asked, this.#matches)) this.#ids.delete(session.id);
      else if (session.updatedAt >= oldest) this.#ids.add(session.id);
    }
    this.#render();
    if (filters().q) this.#searchAgain();
  }

  #shown() {
    const known = [...this.#ids].map((id) => store.sessions.get(id)).filter(Boolean);
    return known.sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1));
  }

  #render() {
    const waiting = new Set(store.waiting.map((set) => set.sessionId));
    const sessions = this.#shown();
    const [first, last] = this.#near(sessions.length);
    const before = this.#rows;
    this.#rows = new Map();
    for (const session of sessions.slice(first, last)) {
      const row = before.get(session.id) ?? new Row();
      this.#rows.set(session.id, row);
      row.update(session, waiting.has(session.id), this.#matches.get(session.id));
    }
    const rows = [...this.#rows.values()].map((row) => row.element);
    arrange(this.rows, rows);
    this.rows.style.padding = `${first * this.#height}px 0 ${(sessions.length - last) * this.#height}px`;
    this.#first = first;
    if (!first && rows.length) this.#height = rows[0].getBoundingClientRect().height;
    this.#mark();
  }

  /** Which rows are on the page: those near the eye. Rows with a message are of any height, and all there. */
  #near(number) {
    if (!this.#height || this.#matches.size) return [0, number];
    const { scrollTop, clientHeight } = this.area;
    const first = Math.max(0, Math.floor(scrollTop / this.#height / STEP) * STEP - STEP);
    return [Math.min(first, number), Math.min(number, first + Math.ceil(clientHeight / this.#height) + 3 * STEP)];
  }

  #scrolled() {
    if (this.#near(this.#ids.size)[0] !== this.#first) this.#render();
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
    this.snippet = h("span", { class: "snippet" });
    this.link = h("a", {}, h("span", { class: "top" }, this.name, this.time), this.about, this.snippet);
    this.element = h("li", {}, this.link);
  }

  update(session, waits, match) {
    const unread = isUnread(session);
    const repo = store.repos.get(session.repoId);
    const state = waits ? "waiting" : session.hasPendingTurn ? "running" : session.status;
    const said = match?.snippet.map(({ text, hit }) => (hit ? `\0${text}` : text)).join("\0");
    const shown = [nameOf(session), state, session.updatedAt, unread, repo?.name, match?.seq, said].join("\0");
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.link.href = match ? messageHref(session.id, match.seq) : sessionHref(session.id);
    this.snippet.replaceChildren(...(match?.snippet.map(piece) ?? []));
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
  ["active,compacted", "Active"],
  ["idle", "Idle"],
  ["completed", "Completed"],
  ["cancelled", "Cancelled"],
  ["error", "Failed"],
  ["archived", "Archived"],
];

/** Archived ones are there for those who ask for them. */
const UNARCHIVED = STATUSES.map(([status]) => status)
  .filter((status) => status !== "archived")
  .join();

/** What to ask the server for: what the filters of the address say. */
function wanted() {
  const { status, agent, repoId, q } = filters();
  return { status: status || UNARCHIVED, agent, repoId, q, order: "updated", limit: PAGE };
}

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
  const chosen = filters()[element.dataset.filter] ?? "";
  const isOffered = !chosen || choices.some(([id]) => id === chosen);
  const all = isOffered ? choices : [...choices, [chosen, chosen.replaceAll(",", ", ")]];
  const options = all.map(([id, name]) => h("option", { value: id }, name));
  element.replaceChildren(element.firstElementChild, ...options);
  element.value = chosen;
  element.classList.toggle("set", chosen !== "");
}

const showAll = () =>
  button("Show all", {
    class: "button quiet",
    onclick: () => setFilters({ status: "", agent: "", repoId: "", q: "" }),
  });

const piece = ({ text, hit }) => (hit ? h("mark", {}, text) : text);

/** Whether a session belongs in the list, as far as that can be told here. */
function fits(session, { status, agent, repoId, q }, matches) {
  return (
    status.split(",").includes(session.status) &&
    (!agent || session.agent === agent) &&
    (!repoId || session.repoId === repoId) &&
    (!q || matches.has(session.id) || nameOf(session).toLowerCase().includes(q.toLowerCase()))
  );
}
