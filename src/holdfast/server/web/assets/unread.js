// Which sessions have something that this person has not seen in this browser.

const KEY = "seen";
const KEPT = 2000;
let seen = new Map(JSON.parse(localStorage.getItem(KEY) ?? "[]"));

/** Remember it as seen; `read` is told at the window when that takes its mark away. */
export function markRead({ id, messageCount }) {
  if (document.visibilityState !== "visible" || seen.get(id) === messageCount) return;
  const wasUnread = isUnread({ id, messageCount });
  seen.delete(id);
  seen.set(id, messageCount);
  if (seen.size > KEPT) seen.delete(seen.keys().next().value);
  localStorage.setItem(KEY, JSON.stringify([...seen]));
  if (wasUnread) dispatchEvent(new Event("read"));
}

/** Whether it has more messages than were seen; one that was never opened here has none that is missed. */
export const isUnread = ({ id, messageCount }) => seen.has(id) && messageCount > seen.get(id);

addEventListener("storage", ({ key, newValue }) => {
  if (key === KEY) seen = new Map(JSON.parse(newValue ?? "[]"));
});
