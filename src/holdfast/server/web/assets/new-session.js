// The dialog that begins a session: where, with which agent or model, and with what.

import { execute, instruct, post } from "./api.js";
import { filters, go, sessionHref } from "./address.js";
import { dialog } from "./dialog.js";
import { button, h } from "./dom.js";
import { draftOf, keepDraft } from "./draft.js";
import { store } from "./store.js";
import { toast } from "./toast.js";

const LAST_AGENT = "last agent";
const MODEL = "model ";
const DRAFT = "of a new session";
const NO_REPOSITORY =
  "No git repository was found under the workspace root. Make one there, or set AGENT_WORKSPACE_ROOT to where yours are.";

export function newSession() {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const repos = h("select", { id: "repo" });
  const agents = h("div", { role: "radiogroup", "aria-label": "Agent" }, choices());
  const about = aboutField();
  const prompt = h("textarea", {
    id: "first-prompt",
    rows: 4,
    value: draftOf(DRAFT),
    oninput: () => keepDraft(DRAFT, prompt.value),
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
      if (!store.repos.size) say(NO_REPOSITORY);
      else if (problem.textContent === NO_REPOSITORY) say(""); // and nothing that was said meanwhile
    } catch (refusal) {
      say(refusal.message);
    }
  };
  const begin = async (event) => {
    event.preventDefault();
    if (start.disabled) return;
    const chosen = agents.querySelector("input:checked")?.value;
    const text = prompt.value.trim();
    const isModel = chosen?.startsWith(MODEL);
    if (isModel && !text) return say("Write what the model shall do: its session begins with that.");
    if (!isModel && !(repos.value && chosen)) return say("Choose a repository and an agent.");
    start.disabled = true;
    start.textContent = isModel ? "Starting…" : "Starting the agent…";
    try {
      const id = await (isModel
        ? withModel(chosen.slice(MODEL.length), about.chosen(), repos.value, text)
        : withAgent(chosen, repos.value, text));
      localStorage.setItem(LAST_AGENT, chosen);
      keepDraft(DRAFT, "");
      shown.close();
      go(sessionHref(id));
    } catch (refusal) {
      say(refusal.message);
      start.disabled = false;
      start.textContent = "Start";
    }
  };
  prompt.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) begin(event);
  });
  const suit = () => {
    const isModel = agents.querySelector("input:checked")?.value.startsWith(MODEL);
    prompt.placeholder = isModel
      ? "What shall the model do?"
      : "What shall the agent do? You can also say it later.";
    about.show(isModel);
  };
  agents.addEventListener("change", suit);
  suit();
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
      about.element,
      h("div", { class: "field" }, h("label", { for: "first-prompt" }, "Prompt"), prompt),
      h("footer", {}, problem, button("Back", { onclick: () => shown.close() }), start),
    ),
  );
  prompt.focus();
  if (!store.repos.size) scan();
}

/** Begin with an agent; the id of the session. What could not be said to it can be sent from there. */
async function withAgent(agent, repoId, text) {
  const session = await post("/api/sessions", { repoId, agent });
  store.putSessions([session]);
  try {
    if (text) await instruct(session, text);
  } catch (problem) {
    keepDraft(session.id, text);
    toast(problem.message, "problem");
  }
  return session.id;
}

/** Begin with a model, which is told of the repository where it can look; the id of the session. */
async function withModel(agentContextId, conversationContextId, repoId, instruction) {
  const repo = store.repos.get(repoId)?.name;
  const { sessionId } = await execute({ agentContextId, conversationContextId, repo, instruction });
  return sessionId;
}

/** What the work with a model is about, where conversation contexts say so. Agents have none. */
function aboutField() {
  const choice = h(
    "select",
    { id: "conversation" },
    h("option", { value: "" }, "None"),
    store.conversations.map(({ name }) => h("option", { value: name }, name)),
  );
  const label = h("label", { for: "conversation" }, "Conversation context");
  const element = h("div", { class: "field" }, label, choice);
  return {
    element,
    show: (isModel) => (element.hidden = !isModel || !store.conversations.length),
    chosen: () => choice.value || undefined,
  };
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

/** Those that can be started; the others unfold, and say what they need. */
function choices() {
  const all = [...store.agents.map(agentChoice), ...store.contexts.map(modelChoice)];
  const ready = all.filter(({ isReady }) => isReady);
  const missing = all.filter(({ isReady }) => !isReady);
  const last = localStorage.getItem(LAST_AGENT);
  const chosen = (ready.find(({ value }) => value === last) ?? ready[0])?.value;
  const choice = ({ value, name, isReady, about }) =>
    h(
      "label",
      { class: isReady ? "agent" : "agent missing" },
      h("input", { type: "radio", name: "agent", value, disabled: !isReady, checked: value === chosen }),
      h("span", {}, h("strong", {}, name), h("small", {}, about)),
    );
  return [
    h("div", { class: "agents" }, ready.map(choice)),
    missing.length > 0 &&
      h(
        "details",
        { open: !ready.length },
        h("summary", { class: "muted small" }, `${missing.length} more, and how to get them`),
        h("div", { class: "agents" }, missing.map(choice)),
      ),
  ];
}

function agentChoice({ name, installed, install }) {
  const ready = name === "demo" ? "Needs no account" : "Installed";
  const about = installed ? ready : h("code", {}, install ?? "not installed");
  return { value: name, name, isReady: installed, about };
}

const modelChoice = ({ name, model }) => ({
  value: MODEL + name,
  name,
  isReady: model !== undefined,
  about: model === undefined ? ["Model: set ", h("code", {}, "HOLDFAST_MODEL")] : `Model ${model}`,
});
