// What waits for a person, told outside of the page: in the title, and by the browser if it may.

import { nameOf, store } from "./store.js";
import { visible } from "./visible.js";

const announced = new Set();
const shown = new Map();

export const canNotify = () => "Notification" in window && Notification.permission === "default";

export const notify = async () => (await Notification.requestPermission()) === "granted";

/** Announce each set once, when nobody is looking at the page, until it is answered. */
export function announceWaiting() {
  let first = true;
  store.addEventListener("questions", () => {
    for (const set of store.waiting) {
      if (!announced.has(set.id) && !first && document.visibilityState !== "visible") announce(set);
      announced.add(set.id);
    }
    for (const [id, notification] of shown) {
      if (store.questions.get(id)?.status !== "pending") notification.close();
    }
    first = false;
  });
}

function announce(set) {
  if (!("Notification" in window) || Notification.permission !== "granted") return;
  const session = store.sessions.get(set.sessionId);
  const title =
    set.kind === "permission"
      ? `${set.agent ?? "An agent"} wants your permission`
      : `${set.agent ?? "An agent"} asks you`;
  const subject = visible(set.tool?.title ?? set.questions[0].prompt);
  const notification = new Notification(title, {
    body: session ? `${subject}\n${nameOf(session)}` : subject,
    tag: set.id,
    icon: "/assets/icon.svg",
  });
  shown.set(set.id, notification);
  notification.onclose = () => shown.delete(set.id);
  notification.onclick = () => {
    focus();
    location.hash = `#/inbox/${set.id}`;
    notification.close();
  };
}
