// What the server has, as far as this page knows: sessions, question sets, repositories, agents, models.
//
// There is one copy of each thing. It is replaced only by what is newer, whichever way that came,
// so that the page shows what it would show after a reload.

import { get } from "./api.js";
import { Feed } from "./feed.js";
import { visible } from "./visible.js";

class Store extends EventTarget {
  me = null;
  sessions = new Map();
  questions = new Map();
  knowsQuestions = false;
  repos = new Map();
  agents = [];
  contexts = [];
  conversations = [];
  #feed = null;
  #position;
  #deleted = new Set();
  #told = new Set();

  /** Know who is calling, what there is to work with, and follow everything from now on. */
  async start() {
    const [me, { repos }, { agents }, contexts, { position }] = await Promise.all([
      get("/api/me"),
      get("/api/repos"),
      get("/api/agents"),
      get("/api/contexts"),
      get("/api/events", { wait: 0 }),
    ]);
    // Before any list is read, for the feed may begin much later: in a tab that nobody looks at yet.
    this.#position = position;
    this.me = me;
    this.setRepos(repos);
    this.agents = agents;
    this.contexts = contexts.agents;
    this.conversations = contexts.conversations;
    this.#follow();
  }

  setRepos(repos) {
    this.repos = new Map(repos.map((repo) => [repo.id, repo]));
    this.#tell("repos");
  }

  /** Tells only of what is news: a list that asks again when it is told would ask for ever. */
  putSessions(sessions) {
    for (const session of sessions.filter(({ id }) => !this.#deleted.has(id))) {
      const known = this.sessions.get(session.id);
      const ahead = known ? session.rev - known.rev : 1;
      if (ahead >= 0) this.sessions.set(session.id, { ...known, ...session });
      if (ahead > 0) this.#tell("sessions");
    }
  }

  /** They are gone for good, whatever was asked about them before and is answered only now. */
  dropSessions(ids) {
    for (const id of ids) {
      this.#deleted.add(id);
      this.sessions.delete(id);
    }
    if (ids.length) this.dispatchEvent(new CustomEvent("deleted", { detail: ids }));
  }

  putQuestions(questions) {
    for (const set of questions) {
      const known = this.questions.get(set.id);
      if (!known || set.updatedAt >= known.updatedAt) this.questions.set(set.id, set);
    }
    this.#tell("questions");
  }

  get waiting() {
    return [...this.questions.values()]
      .filter((set) => set.status === "pending")
      .sort((a, b) => a.createdAt.localeCompare(b.createdAt));
  }

  waitingIn(sessionId) {
    return this.waiting.filter((set) => set.sessionId === sessionId);
  }

  #follow() {
    this.#feed = new Feed("/api/events", {
      inBackground: true,
      since: () => this.#position,
      every: 3000,
      ask: {
        sessions: () => get("/api/events", { since: this.#position, wait: 0 }),
        questions: async () => ({ ...(await get("/api/questions")), gone: [], isAll: true }),
      },
      listeners: {
        sessions: ({ sessions, deleted, position }) => {
          this.#position = position;
          this.putSessions(sessions);
          this.dropSessions(deleted);
        },
        questions: ({ questions, gone, isAll }) => {
          if (isAll) {
            const named = new Set(questions.map(({ id }) => id));
            gone = [...this.questions.keys()].filter((id) => !named.has(id));
          }
          this.knowsQuestions = true;
          gone.forEach((id) => this.questions.delete(id));
          this.putQuestions(questions);
        },
      },
      lost: () => location.reload(),
      signedOut: () => this.dispatchEvent(new Event("signed-out")),
    });
  }

  /** Tell once in a frame, however many changes it had. Hidden tabs have no frames, but announce. */
  #tell(what) {
    if (this.#told.has(what)) return;
    this.#told.add(what);
    const tell = () => {
      this.#told.delete(what);
      this.dispatchEvent(new Event(what));
    };
    if (document.visibilityState === "visible") requestAnimationFrame(tell);
    else setTimeout(tell);
  }
}

export const store = new Store();

/** What a session is called, as it may be shown: no character of it hides, or turns another around. */
export const nameOf = (session) => visible(rawNameOf(session));

/** The name as it is stored, for a person to change it. */
export function rawNameOf(session) {
  return session.title || (session.name === session.key ? "New session" : session.name);
}
