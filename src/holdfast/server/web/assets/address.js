// Where the page is: the view in the fragment, the filters of the list in the query.
//
//   /?status=active&q=tests#/sessions/ID/messages/SEQ      /#/sessions/ID/turns/TURN      /#/inbox      /#/

export const address = new EventTarget();

export function view() {
  const [, place, id, sub, subId] = location.hash.split("/");
  if (place === "sessions" && id && sub === "turns") return { name: "turn", id, turnId: subId };
  if (place === "sessions" && id) return { name: "session", id, seq: sub === "messages" ? Number(subId) : 0 };
  if (place === "inbox") return { name: "inbox", id };
  return { name: "home" };
}

export const sessionHref = (id) => `#/sessions/${id}`;
export const messageHref = (id, seq) => `#/sessions/${id}/messages/${seq}`;
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
  tellFilters();
}

let told = location.search;

function tellFilters() {
  told = location.search;
  address.dispatchEvent(new Event("filters"));
}

// Back and forward lead to places with filters of their own.
addEventListener("popstate", () => location.search !== told && tellFilters());

export function go(hash) {
  location.hash = hash;
}
