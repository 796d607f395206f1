// The dialog that begins a session: where, with which agent, and with what.

import { post } from "./api.js";
import { filters, go, sessionHref } from "./address.js";
import { dialog } from "./dialog.js";
import { button, h } from "./dom.js";
import { store } from "./store.js";

const LAST_AGENT = "last agent";

export function newSession() {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const repos = h("select", { id: "repo", required: true });
  const agents = h("div", { class: "agents", role: "radiogroup", "aria-label": "Agent" }, agentChoices());
  const prompt = h("textarea", {
    id: "first-prompt",
    rows: 4,
    placeholder: "What shall the agent do? You can also say it later.",
  });
  const start = h("button", { type: "submit", class: "button primary" }, "Start");
  const say = (sentence) => {
    problem.hidden = !sentence;
    problem.textContent = sentence;
  };
  const scan = async () => {
    try {
      store.setRepos((await post("/api/repos/scan")).repos);
      fillRepos(repos);
      say(
        store.repos.size
          ? ""
          : "No git repository was found under the workspace root. Make one there, or set AGENT_WORKSPACE_ROOT to where yours are.",
      );
    } catch (refusal) {
      say(refusal.message);
    }
  };
  const begin = async (event) => {
    event.preventDefault();
    const agent = agents.querySelector("input:checked")?.value;
    if (!repos.value || !agent) return say("Choose a repository and an agent.");
    start.disabled = true;
    start.textContent = "Starting the agent…";
    try {
      const session = await post("/api/sessions", { repoId: repos.value, agent });
      localStorage.setItem(LAST_AGENT, agent);
      store.putSessions([session]);
      const text = prompt.value.trim();
      if (text) await post(`/api/sessions/${session.id}/prompt`, { text });
      shown.close();
      go(sessionHref(session.id));
    } catch (refusal) {
      say(refusal.message);
      start.disabled = false;
      start.textContent = "Start";
    }
  };
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) begin(event);
  });
  fillRepos(repos);
  const shown = dialog(
    "New session",
    h(
      "form",
      { class: "new-session", onsubmit: begin },
      h(
        "div",
        { class: "field" },
        h("label", { for: "repo" }, "Repository"),
        h(
          "div",
          { class: "row" },
          repos,
          button("Scan", { title: "Look for repositories again", onclick: scan }),
        ),
      ),
      h("div", { class: "field" }, h("span", { class: "label" }, "Agent"), agents),
      h("div", { class: "field" }, h("label", { for: "first-prompt" }, "Prompt"), prompt),
      problem,
      h("footer", {}, button("Back", { onclick: () => shown.close() }), start),
    ),
  );
  prompt.focus();
  if (!store.repos.size) scan();
}

function fillRepos(repos) {
  const wanted = repos.value || filters().repoId;
  repos.replaceChildren(
    ...[...store.repos.values()].map(({ id, name, branch }) =>
      h("option", { value: id }, branch ? `${name} (${branch})` : name),
    ),
  );
  if (store.repos.has(wanted)) repos.value = wanted;
}

/** Those that are installed first; the others say how to get them. */
function agentChoices() {
  const sorted = [...store.agents].sort((a, b) => b.installed - a.installed);
  const installed = sorted.filter((agent) => agent.installed).map(({ name }) => name);
  const last = localStorage.getItem(LAST_AGENT);
  const chosen = installed.includes(last) ? last : installed[0];
  return sorted.map(({ name, installed: is, install }) =>
    h(
      "label",
      { class: is ? "agent" : "agent missing" },
      h("input", { type: "radio", name: "agent", value: name, disabled: !is, checked: name === chosen }),
      h(
        "span",
        {},
        h("strong", {}, name),
        h(
          "small",
          {},
          is
            ? name === "demo"
              ? "Needs no account"
              : "Installed"
            : h("code", {}, install ?? "not installed"),
        ),
      ),
    ),
  );
}
