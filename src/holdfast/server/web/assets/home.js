// Where nothing is chosen: an invitation, or for the first visit the way to a working session.

import { get, post } from "./api.js";
import { go, sessionHref } from "./address.js";
import { button, h } from "./dom.js";
import { newSession } from "./new-session.js";
import { store } from "./store.js";

const DEMO_REPOSITORY = "holdfast-demo";

export class Home {
  title = "Holdfast";
  #changed = () => this.#render();

  constructor() {
    this.element = h("section", { class: "home", "aria-label": "Welcome" });
  }

  async open() {
    const { total } = await get("/api/sessions", { limit: 1 }).catch(() => ({ total: null }));
    this.total = total;
    this.#render();
    store.addEventListener("sessions", this.#changed);
    store.addEventListener("questions", this.#changed);
  }

  close() {
    store.removeEventListener("sessions", this.#changed);
    store.removeEventListener("questions", this.#changed);
  }

  #render() {
    const waiting = store.knowsQuestions ? store.waiting.length : null;
    const isFirst = this.total === 0 && store.sessions.size === 0 && !waiting;
    const state = `${isFirst} ${waiting}`;
    if (this.state === state) return;
    this.state = state;
    this.element.replaceChildren(isFirst ? firstVisit() : overview(waiting));
  }
}

/** `waiting` is how many questions are open, once that is known. */
function overview(waiting) {
  const title = waiting
    ? `${waiting} ${waiting === 1 ? "question waits" : "questions wait"} for you`
    : waiting === 0
      ? "Nothing waits for you"
      : "Welcome back";
  const key = (name, what) => [h("kbd", {}, name), ` ${what}  `];
  return h(
    "div",
    { class: "empty-page" },
    h("h1", { tabindex: "-1" }, title),
    h(
      "p",
      {},
      "Everything that was said and done is kept. Choose a session to read or go on, or begin another.",
    ),
    h(
      "div",
      { class: "row" },
      waiting > 0 && h("a", { class: "button primary", href: "#/inbox" }, "Open the inbox"),
      button("New session", {
        class: waiting ? "button" : "button primary",
        icon: "plus",
        onclick: () => newSession(),
      }),
    ),
    h(
      "p",
      { class: "keys muted small" },
      key("n", "new session"),
      key("i", "inbox"),
      key("/", "search"),
      key("?", "all keys"),
    ),
  );
}

function firstVisit() {
  const installed = store.agents.filter(({ name, installed: is }) => is && name !== "demo");
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const demo = button("Start a demo session", { class: "button primary large" });
  demo.addEventListener("click", async () => {
    demo.disabled = true;
    demo.textContent = "Starting the agent…";
    try {
      const session = await post("/api/sessions", { repoId: await someRepository(), agent: "demo" });
      store.putSessions([session]);
      go(sessionHref(session.id));
    } catch (refusal) {
      problem.hidden = false;
      problem.textContent = refusal.message;
      demo.disabled = false;
      demo.textContent = "Start a demo session";
    }
  });
  return h(
    "div",
    { class: "first-visit" },
    h("h1", { tabindex: "-1" }, "Sessions that hold fast"),
    h(
      "p",
      { class: "lead" },
      "Holdfast runs AI agents in your repositories and keeps everything that is said and done. Agents ask you before they do what matters. Nothing is lost when a process or the server dies.",
    ),
    h(
      "ol",
      { class: "steps" },
      step(
        "Start a session",
        "An agent works in one of your git repositories. The demo agent needs no account.",
      ),
      step("Tell it what to do", "Its words, plans, tool calls and diffs appear as they happen."),
      step("Answer when it asks", "Permissions and questions wait in the inbox, here and in every terminal."),
    ),
    h(
      "div",
      { class: "row" },
      demo,
      button(
        installed.length
          ? `Start with ${installed.map(({ name }) => name).join(", ")}`
          : "Use an agent of yours",
        {
          class: "button large",
          onclick: () => newSession(),
        },
      ),
    ),
    problem,
  );
}

const step = (title, sentence) => h("li", {}, h("strong", {}, title), h("span", {}, sentence));

/** A repository for the demo: one that is there, or a new one. */
async function someRepository() {
  if (!store.repos.size) store.setRepos((await post("/api/repos/scan")).repos);
  if (!store.repos.size) store.setRepos([await post("/api/repos", { name: DEMO_REPOSITORY })]);
  return store.repos.keys().next().value;
}
