// Where the page is: the view in the fragment, the filters of the list in the query.
//
//   /?status=active&q=tests#/sessions/ID/turns/TURN      /#/inbox      /#/

export const address = new EventTarget();

export function view() {
  const [, place, id, sub, subId] = location.hash.split("/");
  if (place === "sessions" && id) return { name: sub === "turns" ? "turn" : "session", id, turnId: subId };
  if (place === "inbox") return { name: "inbox", id };
  return { name: "home" };
}

export const sessionHref = (id) => `#/sessions/${id}`;
export const turnHref = (id, turnId) => `#/sessions/${id}/turns/${turnId}`;

export function filters() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

export function setFilters(changed) {
  const next = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changed)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const text = next.toString();
  history.replaceState(null, "", `${text ? `?${text}` : location.pathname}${location.hash}`);
  address.dispatchEvent(new Event("filters"));
}

export function go(hash) {
  location.hash = hash;
}
