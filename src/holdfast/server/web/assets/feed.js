// The change feed of the server, kept open.
//
// A browser allows six connections to a server over all its tabs, so a tab that nobody looks at
// holds none; except for one of them, chosen by a lock, which goes on listening to announce what
// waits for an answer. A feed that comes back goes on after the last change that was applied.

import { get } from "./api.js";

const FIRST_DELAY = 500;
const LONGEST_DELAY = 4000;

/** Whether what is shown is up to date: `open` or `lost`; `change` tells when that becomes otherwise. */
export const connection = Object.assign(new EventTarget(), { state: "open" });

function judgeConnection() {
  const state = [...feeds].some((feed) => feed.isLost) ? "lost" : "open";
  if (connection.state === state) return;
  connection.state = state;
  connection.dispatchEvent(new Event("change"));
}

let announces = false;
const feeds = new Set();
const adjustAll = () => feeds.forEach((feed) => feed.adjust());
document.addEventListener("visibilitychange", adjustAll);
navigator.locks?.request("holdfast-announcer", () => {
  announces = true;
  adjustAll();
  return new Promise(() => {});
});

export class Feed {
  isLost = false;
  #source = null;
  #timer = null;
  #delay = FIRST_DELAY;

  /**
   * `listeners` maps names of events to functions that are given their data. `since` says where to
   * go on. `opened` is called at each new beginning, `lost` when the server has not what was seen
   * here (it is another one, or an older state of it), `signedOut` when it does not know us.
   */
  constructor(path, { since, listeners, opened = () => {}, lost, signedOut, inBackground = false }) {
    Object.assign(this, { path, since, listeners, opened, lost, signedOut, inBackground });
    feeds.add(this);
    this.adjust();
  }

  close() {
    feeds.delete(this);
    this.#stop();
    judgeConnection();
  }

  /** Be open while somebody looks, or while this tab announces for all. */
  adjust() {
    const wanted = document.visibilityState === "visible" || (this.inBackground && announces);
    if (!wanted) this.#stop();
    else if (!this.#source && !this.#timer) this.#open();
  }

  #open() {
    this.#timer = null;
    const since = this.since();
    const source = new EventSource(since === undefined ? this.path : `${this.path}?since=${since}`);
    this.#source = source;
    source.onopen = () => {
      this.#delay = FIRST_DELAY;
      this.isLost = false;
      judgeConnection();
      this.opened();
    };
    source.onerror = () => this.#again();
    for (const [name, apply] of Object.entries(this.listeners)) {
      source.addEventListener(name, (event) => apply(JSON.parse(event.data)));
    }
  }

  async #again() {
    this.#stop();
    this.isLost = true;
    judgeConnection();
    this.#timer = setTimeout(() => this.#open(), this.#delay);
    this.#delay = Math.min(LONGEST_DELAY, this.#delay * 2);
    try {
      await get(this.path, { since: this.since(), wait: 0 });
    } catch (problem) {
      if (problem.status === 401) this.signedOut();
      else if (problem.code === "revision_ahead" || problem.status === 404) this.lost(problem);
      else return;
      this.close();
    }
  }

  #stop() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#source?.close();
    this.#source = null;
  }
}
