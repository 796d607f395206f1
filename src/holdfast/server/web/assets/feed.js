// The change feed of the server, kept open.
//
// It streams while it has a line. A tab that nobody looks at holds none; except for one of them,
// chosen by a lock, which goes on listening to announce what waits for an answer. When all lines are
// taken by other windows, it asks now and then what is new. A feed that comes back goes on after the
// last change that was applied.

import { get } from "./api.js";
import { takeLine } from "./lines.js";

const FIRST_DELAY = 500;
const LONGEST_DELAY = 4000;
const SILENCE = 35_000; // two heartbeats of the server, and a little

/** Whether what is shown is up to date: `open` or `lost`; `change` tells when that becomes otherwise. */
export const connection = Object.assign(new EventTarget(), { state: "open" });

function judgeConnection() {
  const state = [...feeds].some((feed) => feed.isLost) ? "lost" : "open";
  if (connection.state === state) return;
  connection.state = state;
  connection.dispatchEvent(new Event("change"));
}

/** Do again what could not be reached: once connected, or a little later if no feed has noticed. */
export function whenReachable(again) {
  if (connection.state === "lost") connection.addEventListener("change", again, { once: true });
  else setTimeout(again, LONGEST_DELAY);
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
  #run = null;
  #source = null;
  #timer = null;
  #giveBack = null;
  #delay = FIRST_DELAY;

  /**
   * `listeners` maps names of events to functions that are given their data, and `ask` the same names
   * to requests that are answered with it, made `every` so many milliseconds without a line. `since`
   * says where to go on. `lost` is called when the server has not what was seen here (it is another one,
   * or an older state of it), `signedOut` when it does not know us.
   */
  constructor(path, { since, listeners, ask, every, lost, signedOut, inBackground }) {
    Object.assign(this, { path, since, listeners, ask, every, lost, signedOut, inBackground });
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
    const wanted = document.visibilityState === "visible" || this.#announces;
    if (!wanted) this.#stop();
    else if (!this.#run) this.#open();
    else if (this.#announces) this.#announceFromNowOn();
  }

  /** The lock of the announcer is a line too: it must hear at once, and hidden tabs have slow clocks. */
  get #announces() {
    return this.inBackground && announces;
  }

  /** The line on which it streams is free for another feed; one that had none streams now. */
  #announceFromNowOn() {
    if (this.#source) {
      this.#giveBack?.();
      this.#giveBack = null;
    } else {
      this.#stop();
      this.#open();
    }
  }

  async #open() {
    const run = (this.#run = Symbol());
    const giveBack = this.#announces ? null : await takeLine();
    if (run !== this.#run) giveBack?.();
    else if (giveBack || this.#announces) this.#stream(giveBack);
    else await this.#look(run);
  }

  #stream(giveBack) {
    this.#giveBack = giveBack;
    const source = new EventSource(`${this.path}?since=${this.since()}`);
    this.#source = source;
    this.#expectMore();
    source.onopen = () => {
      this.#expectMore();
      this.#found();
    };
    source.onerror = () => {
      this.#again();
      get(this.path, { since: this.since(), wait: 0 }).catch((problem) => this.#judge(problem));
    };
    for (const [name, apply] of Object.entries(this.listeners)) {
      source.addEventListener(name, (event) => {
        this.#expectMore();
        apply(JSON.parse(event.data));
      });
    }
    source.addEventListener("heartbeat", () => this.#expectMore());
  }

  /** A server that has stopped, or a line that leads nowhere any more, closes nothing: it is only silent. */
  #expectMore() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#again(), SILENCE);
  }

  /** What a stream would have told by now. */
  async #look(run) {
    const names = Object.keys(this.ask);
    let news;
    try {
      news = await Promise.all(names.map((name) => this.ask[name]()));
    } catch (problem) {
      if (run !== this.#run) return;
      this.#again();
      this.#judge(problem);
      return;
    }
    if (run !== this.#run) return;
    const isAll = !news.some(({ more }) => more);
    this.#timer = setTimeout(() => this.#open(), isAll ? this.every : 0);
    this.#found();
    names.forEach((name, number) => this.listeners[name](news[number]));
  }

  #found() {
    this.#delay = FIRST_DELAY;
    this.isLost = false;
    judgeConnection();
  }

  #again() {
    this.#stop();
    this.isLost = true;
    judgeConnection();
    this.#run = Symbol();
    this.#timer = setTimeout(() => this.#open(), this.#delay);
    this.#delay = Math.min(LONGEST_DELAY, this.#delay * 2);
  }

  /** Whether it is for good. */
  #judge(problem) {
    if (problem.status === 401) this.signedOut();
    else if (problem.code === "revision_ahead" || problem.status === 404) this.lost(problem);
    else return;
    this.close();
  }

  #stop() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#giveBack?.();
    this.#source = this.#giveBack = this.#run = null;
  }
}
