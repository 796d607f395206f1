// What the server has, as far as this page knows: sessions, question sets, repositories, agents, models.
//
// There is one copy of each thing. It is replaced only by what is newer, whichever way that came,
// so that the page shows what it would show after a reload.

import { get } from "./api.js";
import { Feed } from "./feed.js";

class Store extends EventTarget {
  me = null;
  sessions = new Map();
  questions = new Map();
  repos = new Map();
  agents = [];
  contexts = [];
  #feed = null;
  #position;
  #told = new Set();

  /** Know who is calling, what there is to work with, and follow everything from now on. */
  async start() {
    const [me, { repos }, { agents }, contexts] = await Promise.all([
      get("/api/me"),
      get("/api/repos"),
      get("/api/agents"),
      get("/api/contexts"),
    ]);
    this.me = me;
    this.setRepos(repos);
    this.agents = agents;
    this.contexts = contexts.agents;
    this.#follow();
  }

  setRepos(repos) {
    this.repos = new Map(repos.map((repo) => [repo.id, repo]));
    this.#tell("repos");
  }

  putSessions(sessions) {
    for (const session of sessions) {
      const known = this.sessions.get(session.id);
      if (!known || session.rev >= known.rev) this.sessions.set(session.id, { ...known, ...session });
    }
    this.#tell("sessions");
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
    let fresh = false;
    this.#feed = new Feed("/api/events", {
      inBackground: true,
      since: () => this.#position,
      opened: () => (fresh = true),
      listeners: {
        sessions: ({ sessions, deleted, position }) => {
          this.#position = position;
          this.putSessions(sessions);
          deleted.forEach((id) => this.sessions.delete(id));
          if (deleted.length) this.dispatchEvent(new CustomEvent("deleted", { detail: deleted }));
        },
        questions: ({ questions, gone }) => {
          if (fresh) {
            // The first event of a connection has every set: what it does not name is no more.
            this.questions = new Map(questions.map((set) => [set.id, set]));
            fresh = false;
          }
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

/** What a session is called. */
export function nameOf(session) {
  return session.title || (session.name === session.key ? "New session" : session.name);
}
