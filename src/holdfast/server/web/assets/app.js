// The page: what is around the views, and which view is shown.

import { view } from "./address.js";
import { Unreachable } from "./api.js";
import { connectionBanner } from "./connection-banner.js";
import { h, icon, iconButton } from "./dom.js";
import { Home } from "./home.js";
import { Inbox } from "./inbox.js";
import { newSession } from "./new-session.js";
import { announceWaiting } from "./notifications.js";
import { problemPage, signedOutPage } from "./problem-page.js";
import { newSessionButton } from "./session-actions.js";
import { SessionList } from "./session-list.js";
import { SessionView } from "./session-view.js";
import { listenForKeys, showKeys } from "./shortcuts.js";
import { store } from "./store.js";
import { themeButton } from "./theme.js";
import { TurnView } from "./turn-view.js";

const RETRY = 2000;

const list = new SessionList();
const badge = h("span", { class: "badge", hidden: true });
const inboxLink = h(
  "a",
  { class: "inbox-link", href: "#/inbox" },
  icon("inbox"),
  h("span", {}, "Inbox"),
  badge,
);
const main = h("main", { id: "main" });
let shown = null;

function frame() {
  const brand = h(
    "a",
    { class: "brand", href: "#/" },
    h("img", { src: "/assets/icon.svg", alt: "", width: 24, height: 24 }),
    "Holdfast",
  );
  const help = iconButton("help", "Keys (?)", { onclick: showKeys });
  const sidebar = h(
    "div",
    { class: "sidebar" },
    h("header", { class: "sidebar-header" }, brand, help, themeButton()),
    h(
      "div",
      { class: "sidebar-actions" },
      newSessionButton(() => newSession()),
      inboxLink,
    ),
    list.element,
  );
  document
    .getElementById("app")
    .replaceChildren(connectionBanner(), sidebar, main, h("div", { id: "toast", role: "status" }));
}

async function show() {
  const { name, id, seq, turnId } = view();
  if (name === "inbox" && shown instanceof Inbox) return shown.goTo(id);
  shown?.close();
  shown = {
    home: () => new Home(),
    inbox: () => new Inbox(),
    session: () => new SessionView(id, seq),
    turn: () => new TurnView(id, turnId),
  }[name]();
  const opening = shown;
  document.body.dataset.view = name;
  if (name === "inbox") inboxLink.setAttribute("aria-current", "page");
  else inboxLink.removeAttribute("aria-current");
  main.replaceChildren(opening.element);
  await opening.open();
  if (opening !== shown) opening.close();
  else {
    title();
    if (document.activeElement === document.body) main.querySelector("h1")?.focus({ preventScroll: true });
  }
}

function title() {
  const waiting = store.waiting.length;
  badge.hidden = !waiting;
  badge.textContent = waiting;
  badge.setAttribute("aria-label", `${waiting} waiting`);
  const name = shown?.title && shown.title !== "Holdfast" ? `${shown.title} · Holdfast` : "Holdfast";
  document.title = waiting ? `(${waiting}) ${name}` : name;
}

function signedOut() {
  document.body.dataset.view = "signed-out";
  document.getElementById("app").replaceChildren(h("main", { id: "main" }, signedOutPage()));
}

const step = (by) => (shown instanceof Inbox ? shown.step(by) : list.step(by));

async function start() {
  store.addEventListener("signed-out", signedOut);
  try {
    await store.start();
  } catch (problem) {
    if (problem.status === 401) return signedOut();
    if (problem instanceof Unreachable) setTimeout(start, RETRY);
    document.getElementById("app").replaceChildren(h("main", {}, problemPage(problem)));
    return;
  }
  frame();
  store.addEventListener("questions", title);
  document.addEventListener("title-changed", title);
  addEventListener("hashchange", show);
  document.addEventListener("try-again", show);
  announceWaiting();
  listenForKeys({
    n: () => newSession(),
    i: () => (location.hash = "#/inbox"),
    "/": () => list.search.focus(),
    "?": showKeys,
    j: () => step(1),
    k: () => step(-1),
    c: () => shown.composer?.focus(),
    g: () => shown.timeline?.toEnd(),
    s: () => shown.composer?.stopTurn(),
    Escape: () => shown.escape?.() || (location.hash !== "" && (location.hash = "#/")),
    choose: (number) => shown.choose?.(number),
  });
  await Promise.all([list.load(), show()]);
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment of the address says which view is shown
  document.querySelector("main h1")?.focus();
});
await start();
