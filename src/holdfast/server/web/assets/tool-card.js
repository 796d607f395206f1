// A tool call: what the agent does, with what, and what came of it.

import { h, icon } from "./dom.js";
import { diffView } from "./diff.js";
import { facts } from "./json.js";
import { terminalOutput } from "./terminal-output.js";
import { visible } from "./visible.js";

const SHORT = 80; // characters; a title of one line and no more is read whole where it stands

const KINDS = {
  read: "file",
  edit: "edit",
  delete: "trash",
  move: "move",
  search: "search",
  execute: "terminal",
  think: "thought",
  fetch: "globe",
};
const STATES = {
  pending: ["waiting", "todo"],
  in_progress: ["running", "running"],
  completed: ["done", "done"],
  failed: ["failed", "failed"],
  interrupted: ["interrupted", "failed"],
  unknown: ["never reported", "todo"],
};

export class ToolCard {
  constructor(message, conversation) {
    this.conversation = conversation;
    this.title = h("span", { class: "title" });
    this.state = h("span", { class: "state" });
    this.picture = h("span", { class: "picture" });
    this.body = h("div", { class: "body" });
    this.element = h(
      "details",
      { class: "message tool card" },
      h("summary", {}, this.picture, this.title, this.state),
      this.body,
    );
    this.element.addEventListener("toggle", () => this.#show());
    this.update(message);
    this.element.open = openAtFirst(message.content);
  }

  update({ content }) {
    this.content = content;
    const [word, picture] = STATES[content.status ?? "completed"] ?? [content.status, "todo"];
    this.element.dataset.status = content.status ?? "completed";
    this.picture.replaceChildren(icon(KINDS[content.kind] ?? "tool"));
    this.title.textContent = visible(content.title || content.tool);
    this.title.classList.toggle("command", content.kind === "execute");
    this.state.replaceChildren(icon(picture), word);
    this.#show();
  }

  #show() {
    if (this.element.open) this.body.replaceChildren(...toolDetails(this.content, this.#root()));
  }

  #root() {
    return this.conversation.session.repo?.path;
  }
}

const openAtFirst = ({ status, content = [] }) =>
  status === "failed" || content.some((each) => each.type === "diff" || each.type === "terminal");

/** Everything that is known of a tool call, to read or to judge. */
export function toolDetails(call, root) {
  const { args, rawInput, result, rawOutput, content = [], locations = [], kind, status } = call;
  const command = commandApart(call);
  const given = withoutCommand(args ?? rawInput);
  const came = result ?? rawOutput;
  const shownInDiff = content.some((each) => each.type === "diff");
  const output = outputOf(came);
  const parts = content.filter((each) => each.type !== "terminal" || output === null);
  return [
    command && h("pre", { class: "command", tabindex: "0" }, visible(command)),
    parts.map((each) => toolContent(each, root)),
    output !== null && terminalOutput(output, came.exitCode ?? came.exit_code),
    given && !(shownInDiff && isPathOnly(given)) && labelled("Arguments", facts(relativeTo(root, given))),
    locations.length > 0 && !shownInDiff && locationList(locations, root),
    came && output === null && !shownInDiff && labelled("Result", facts(came)),
    came?.error && shownInDiff && labelled("Result", facts(came)),
  ]
    .flat()
    .filter(Boolean)
    .concat(
      status === "in_progress" && kind === "execute" && !content.length && output === null
        ? [h("p", { class: "muted" }, "No output yet.")]
        : [],
    );
}

function toolContent(each, root) {
  switch (each.type) {
    case "diff":
      return diffView(
        relativePath(each.path, root),
        each.oldText ?? "",
        each.newText ?? "",
        each.oldText === null,
      );
    case "content":
      return toolText(each.content ?? {});
    case "terminal":
      if (each.output === undefined) return null;
      return terminalOutput(each.output, each.exitStatus?.exitCode, each.truncated);
    default:
      return facts(each);
  }
}

const toolText = (block) =>
  facts(block.type === "text" ? block.text : block);

function locationList(locations, root) {
  const shown = locations.map(({ path, line }) => {
    const name = relativePath(path, root) || ".";
    return h("li", {}, h("code", {}, visible(line ? `${name}:${line}` : name)));
  });
  return labelled("Where", h("ul", { class: "locations" }, shown));
}

/** The text that a command wrote, where agents put it; null when this is no command. */
function outputOf(result) {
  if (!result || typeof result !== "object") return null;
  const texts = [result.output, result.stdout, result.stderr].filter((text) => typeof text === "string");
  return texts.length ? texts.filter(Boolean).join("\n") : null;
}

const labelled = (label, element) => h("div", { class: "part" }, h("h4", {}, label), element);

/** The command that a tool call runs, to its last line; nothing where the title is all of it. */
export function commandApart({ args, rawInput, kind, title }) {
  const command = commandOf(args ?? rawInput) ?? (kind === "execute" ? title : undefined);
  const isTold = command === title && title?.length <= SHORT && !title.includes("\n");
  return isTold ? undefined : command;
}

/** The command among the arguments: a line for a shell, or words, which are quoted as a shell needs them. */
function commandOf(given) {
  const command = given?.command;
  if (Array.isArray(command)) return command.map(quoted).join(" ");
  return typeof command === "string" ? command : undefined;
}

const quoted = (word) =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`;

/** Arguments without the command, which is shown by itself. */
function withoutCommand(given) {
  if (commandOf(given) === undefined) return given;
  const { command, ...rest } = given;
  return Object.keys(rest).length ? rest : null;
}

const isPathOnly = (given) => Object.keys(given).every((name) => /^(file_?)?path$/i.test(name));

function relativeTo(root, given) {
  if (!given || typeof given !== "object" || Array.isArray(given)) return given;
  const shown = Object.entries(given).map(([name, value]) => [
    name,
    typeof value === "string" ? relativePath(value, root) : value,
  ]);
  return Object.fromEntries(shown);
}

export function relativePath(path, root) {
  if (!root || typeof path !== "string") return path;
  return path === root ? "." : path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
}
