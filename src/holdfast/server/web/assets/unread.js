// Which sessions have something that this person has not seen in this browser.
//
// Of a session that was open here it is known how many messages were seen. Half a message less while a
// turn was pending: its answer is counted from its first word on, and may end when nobody looks. A session
// that was never open here has something new if it went on after this browser was first here.

const SEEN = "seen";
const BEGAN = "seen-since";
const KEPT = 2000;
let seen = new Map(JSON.parse(localStorage.getItem(SEEN) ?? "[]"));
if (!localStorage.getItem(BEGAN)) beginNow();

/** Remember it as seen; `read` is told at the window when that takes its mark away. */
export function markRead(session) {
  const { id, messageCount, hasPendingTurn } = session;
  const number = hasPendingTurn ? messageCount - 0.5 : messageCount;
  if (document.visibilityState !== "visible" || seen.get(id) === number) return;
  const wasUnread = isUnread(session);
  seen.delete(id);
  seen.set(id, number);
  if (seen.size > KEPT) {
    seen.delete(seen.keys().next().value);
    beginNow(); // or what was forgotten would be new
  }
  localStorage.setItem(SEEN, JSON.stringify([...seen]));
  if (wasUnread) dispatchEvent(new Event("read"));
}

export function isUnread({ id, messageCount, hasPendingTurn, updatedAt }) {
  const number = seen.get(id);
  if (number === undefined) return messageCount > 0 && updatedAt > localStorage.getItem(BEGAN);
  return messageCount > (hasPendingTurn ? Math.ceil(number) : number);
}

function beginNow() {
  localStorage.setItem(BEGAN, new Date().toISOString());
}

addEventListener("storage", ({ key, newValue }) => {
  if (key === SEEN) seen = new Map(JSON.parse(newValue ?? "[]"));
});
