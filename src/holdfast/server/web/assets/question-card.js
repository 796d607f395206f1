// A question set: what an agent wants to know or may do, and the answer. The first answer counts,
// wherever it is given; a card that somebody else answered says so, and takes no more.

import { post } from "./api.js";
import { sessionHref } from "./address.js";
import { button, h, icon } from "./dom.js";
import { nameOf, store } from "./store.js";
import { ago, moment } from "./times.js";
import { commandApart, toolDetails } from "./tool-card.js";
import { visible } from "./visible.js";

const HEADINGS = {
  permission: "wants your permission",
  elicitation: "needs something from you",
  question: "asks you",
};
const DOORS = {
  web: "on this page",
  http: "over HTTP",
  terminal: "in a terminal",
  cli: "on the command line",
  tui: "in the terminal inbox",
};

export class QuestionCard {
  #shown = null;
  #chosen = [];

  /**
   * `asked` is what the session's message says of a set that may be gone. A card that `isAlone`, with no
   * tool call beside it, also shows the change that is to be judged; `inInbox`, where it was asked.
   */
  constructor(id, { asked, inInbox = false, isAlone = inInbox } = {}) {
    this.id = id;
    this.isAlone = isAlone;
    this.asked = asked;
    this.inInbox = inInbox;
    this.element = h("section", {
      class: "message question card",
      tabindex: "-1",
      dataset: { set: id },
      onpointerdown: () => this.#become(),
      onfocusin: ({ target }) => target !== this.element && this.#become(),
    });
    this.questionsChanged();
  }

  get set() {
    return store.questions.get(this.id);
  }

  get isPending() {
    return this.set?.status === "pending";
  }

  update() {}

  questionsChanged() {
    const session = store.sessions.get(this.set?.sessionId);
    const state = [this.set?.status, this.set?.updatedAt, this.inInbox && session && nameOf(session)].join();
    if (state === this.#shown) return;
    if (this.#shown && this.isPending && this.element.querySelector(":focus")) return; // somebody is answering it
    this.#shown = state;
    this.element.classList.toggle("pending", this.isPending);
    if (!this.isPending) this.element.classList.remove("current");
    this.element.dataset.status = this.set?.status ?? "gone";
    const kind = this.set?.kind ?? this.asked?.kind ?? "question";
    const agent = this.set?.agent ?? "The agent";
    this.element.setAttribute("aria-label", `${agent} ${HEADINGS[kind]}`);
    this.element.replaceChildren(
      ...(this.isPending ? this.#open(agent, kind) : this.#settled(agent, kind)).flat().filter(Boolean),
    );
  }

  #become() {
    if (this.isPending) makeCurrent(this.element);
  }

  // Open

  #open(agent, kind) {
    const { questions, tool, createdAt } = this.set;
    this.#chosen = questions.map(() => ({ labels: new Set(), text: "" }));
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    const direct = questions.length === 1 && !questions[0].multiSelect;
    return [
      h(
        "header",
        {},
        icon(kind === "permission" ? "tool" : "help"),
        h("strong", {}, agent, " ", HEADINGS[kind]),
        h("time", { datetime: createdAt, title: moment(createdAt) }, ago(createdAt)),
      ),
      this.inInbox && this.#where(),
      tool?.title &&
        tool.title !== commandApart(tool) &&
        h("p", { class: tool.kind === "execute" ? "subject command" : "subject" }, visible(tool.title)),
      tool && this.#judged(this.isAlone ? tool : { ...tool, content: [], locations: [] }),
      direct ? this.#direct(questions[0], kind) : this.#form(questions),
      this.problem,
    ];
  }

  #judged(tool) {
    return h(
      "div",
      { class: "judge" },
      toolDetails({ ...tool, status: undefined }, this.set.workingDirectory),
    );
  }

  #where() {
    const session = store.sessions.get(this.set.sessionId);
    const place = this.set.workingDirectory?.split("/").at(-1);
    if (!this.set.sessionId) return place && h("p", { class: "where" }, place);
    const name = session ? nameOf(session) : "its session";
    return h(
      "p",
      { class: "where" },
      place && `${place} · `,
      h("a", { href: sessionHref(this.set.sessionId) }, name),
    );
  }

  #direct(question, kind) {
    const isPermission = kind === "permission";
    const isSuggested = (label, index) => (isPermission ? index === 0 : /\(recommended\)/i.test(label));
    const options = question.options.map((option, index) =>
      h(
        "button",
        {
          type: "button",
          class: `button option${isSuggested(option.label, index) ? " primary" : ""}`,
          dataset: { option: index },
          title: option.description && visible(option.description),
          onclick: () => this.#answer([{ questionIndex: 0, selectedOption: option.label }]),
        },
        h("kbd", {}, index + 1),
        visible(option.label),
      ),
    );
    const words = h("input", {
      type: "text",
      "aria-label": isPermission ? "Refuse, and say what to do instead" : "Answer in your own words",
      placeholder: isPermission ? "Or refuse, and say what to do instead" : "Or answer in your own words",
    });
    const say = (event) => {
      event.preventDefault();
      if (words.value.trim()) this.#answer([{ questionIndex: 0, customText: words.value.trim() }]);
    };
    const described = question.options.some((option) => option.description) && !isPermission;
    return [
      !(isPermission && this.set.tool?.title) && h("p", { class: "prompt-text" }, visible(question.prompt)),
      described && h("ul", { class: "descriptions" }, question.options.map(optionDescription)),
      h("div", { class: "options", role: "group", "aria-label": "Answers" }, options),
      h("form", { class: "own-words", onsubmit: say }, words, !isPermission && this.#decline()),
    ];
  }

  #form(questions) {
    const send = (event) => {
      event.preventDefault();
      this.#answer(this.#chosen.flatMap((chosen, index) => answerOf(chosen, questions[index], index)));
    };
    return h(
      "form",
      { class: "questions", onsubmit: send },
      questions.map((question, index) => {
        const before = questions.slice(0, index).flatMap(({ options }) => options).length;
        return this.#fieldset(question, index, before);
      }),
      h(
        "div",
        { class: "options" },
        h("button", { class: "button primary", type: "submit" }, "Answer"),
        this.#decline(),
      ),
    );
  }

  /** `before` are the options of the questions above, which the keys count first. */
  #fieldset(question, index, before) {
    const chosen = this.#chosen[index];
    const choice = (option, at) => {
      const change = (event) => {
        if (!question.multiSelect) chosen.labels.clear();
        if (event.target.checked) chosen.labels.add(option.label);
        else chosen.labels.delete(option.label);
      };
      const type = question.multiSelect ? "checkbox" : "radio";
      return h(
        "label",
        { class: "choice" },
        h("input", { type, name: `${this.id}-${index}`, onchange: change, dataset: { option: "" } }),
        h(
          "span",
          {},
          visible(option.label),
          option.description && h("small", {}, visible(option.description)),
        ),
        before + at < 9 && h("kbd", { "aria-hidden": "true" }, before + at + 1),
      );
    };
    return h(
      "fieldset",
      {},
      h("legend", {}, h("span", { class: "tag" }, visible(question.title)), visible(question.prompt)),
      question.options.map(choice),
      h("input", {
        type: "text",
        placeholder: "In your own words",
        "aria-label": `${visible(question.title)}: in your own words`,
        oninput: (event) => (chosen.text = event.target.value),
      }),
    );
  }

  #decline() {
    return button("Decline", { class: "button quiet", onclick: () => this.#send("reject", {}) });
  }

  #answer(answers) {
    if (answers.length) return this.#send("answer", { answers });
    return this.#say("Choose something first, or write your own words.");
  }

  async #send(how, body) {
    const controls = this.element.querySelectorAll("button, input");
    controls.forEach((control) => (control.disabled = true));
    try {
      store.putQuestions([await post(`/api/questions/${this.id}/${how}`, body)]);
      this.questionsChanged();
    } catch (problem) {
      controls.forEach((control) => (control.disabled = false));
      this.#say(problem.message);
    }
  }

  #say(text) {
    this.problem.hidden = false;
    this.problem.textContent = text;
  }

  // Settled

  #settled(agent, kind) {
    const { set } = this;
    const questions = set?.questions ?? this.asked?.questions ?? [];
    const subject = set?.tool?.title ?? questions[0]?.prompt?.split("\n")[0] ?? "A question";
    const [picture, outcome] = outcomeOf(set, kind);
    const line = [
      icon(picture),
      h("span", { class: "subject" }, visible(subject)),
      h("span", { class: "outcome" }, outcome),
    ];
    return [
      set?.tool ? this.#unfolding(line, set.tool) : h("header", { class: "settled" }, line),
      this.inInbox && set && this.#where(),
      set?.answeredBy && h("p", { class: "muted small" }, answeredHow(set)),
    ];
  }

  /** A line that unfolds to all that was judged. */
  #unfolding(line, tool) {
    const all = h("details", {}, h("summary", { class: "settled" }, line));
    all.addEventListener("toggle", () => all.append(this.#judged(tool)), { once: true });
    return all;
  }
}

/** The question whose options the digits take. Somebody went to it: no card becomes that by itself. */
function makeCurrent(card) {
  document.querySelectorAll(".question.current").forEach((each) => each.classList.remove("current"));
  card.classList.add("current");
}

/** Go to a card; if it waits, digits answer it from now on. */
export function goToCard(card) {
  card.focus({ preventScroll: true });
  card.scrollIntoView({ block: "nearest" });
  if (card.matches(".pending")) makeCurrent(card);
}

/** Take an option of the current card by its number, once it is in sight: until then, show it. */
export function chooseOption(number) {
  const option = document.querySelectorAll(".question.current [data-option]")[number];
  if (!option) return;
  if (!isInSight(option)) return option.scrollIntoView({ block: "nearest" });
  option.focus();
  option.click();
}

export function isInSight(element) {
  const { x, y, width, height } = element.getBoundingClientRect();
  return element.contains(document.elementFromPoint(x + width / 2, y + height / 2));
}

const optionDescription = (option) =>
  option.description &&
  h("li", {}, h("strong", {}, visible(option.label)), " ", visible(option.description));

function answerOf({ labels, text }, question, questionIndex) {
  const customText = text.trim() || undefined;
  if (!labels.size && !customText) return [];
  const selected = question.multiSelect
    ? { selectedOptions: [...labels] }
    : { selectedOption: [...labels][0] };
  return [{ questionIndex, ...(labels.size ? selected : {}), ...(customText ? { customText } : {}) }];
}

function outcomeOf(set, kind) {
  switch (set?.status) {
    case "completed":
      return [isRefusal(set) ? "failed" : "done", said(set.answers) || "answered"];
    case "rejected":
      return ["failed", set.rejectionReason ? `declined: ${set.rejectionReason}` : "declined"];
    case "timed_out":
      return ["todo", "nobody answered in time"];
    case "abandoned":
      return ["todo", "withdrawn"];
    default:
      return [
        "todo",
        kind === "permission" ? "a permission request that is no longer kept" : "no longer kept",
      ];
  }
}

/** Whether a permission was refused: by such an option, or by words about what to do instead. */
const isRefusal = ({ kind, questions, answers = [] }) =>
  kind === "permission" &&
  answers.some(({ questionIndex, selectedOption, customText }) => {
    const option = questions[questionIndex]?.options.find(({ label }) => label === selectedOption);
    const refuses = (text) => /^(refuse|reject|deny|no\b)/i.test(text ?? "");
    return customText || refuses(option?.description) || refuses(option?.label);
  });

const said = (answers = []) =>
  answers
    .map(({ selectedOption, selectedOptions = [], customText }) =>
      [selectedOption, ...(selectedOptions ?? []), customText].filter(Boolean).join(", "),
    )
    .join(" · ");

function answeredHow({ answeredBy, answeredFrom, answeredAt }) {
  const door = DOORS[answeredFrom] ?? answeredFrom;
  return [`Answered by ${answeredBy}`, door, answeredAt && ago(answeredAt)].filter(Boolean).join(" · ");
}
