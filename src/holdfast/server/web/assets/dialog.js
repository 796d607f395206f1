// Questions of the page itself.

import { button, h, iconButton } from "./dom.js";

let dialogs = 0;

/** A modal dialog with a title; it is gone once it is closed. */
export function dialog(title, ...content) {
  const id = `dialog-${(dialogs += 1)}`;
  const element = h(
    "dialog",
    { "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title), iconButton("close", "Close", { onclick: () => element.close() })),
    ...content,
  );
  element.addEventListener("close", () => element.remove());
  closeFromOutside(element);
  document.body.append(element);
  element.showModal();
  return element;
}

/** Only a press that began and ended beside the box means to leave: one may let go there of a selection. */
function closeFromOutside(element) {
  let pressed = false;
  element.addEventListener("pointerdown", (event) => (pressed = isBeside(element, event)));
  element.addEventListener("click", (event) => pressed && isBeside(element, event) && element.close());
}

function isBeside(element, { target, clientX, clientY }) {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return target === element && (clientX < left || clientX > right || clientY < top || clientY > bottom);
}

/** A line of text from the person; null when they changed their mind. */
export function ask(title, { label, value }) {
  return new Promise((resolve) => {
    const input = h("input", { type: "text", value, id: "asked", maxlength: 1000 });
    const save = (event) => {
      event.preventDefault();
      resolve(input.value);
      shown.close();
    };
    const shown = dialog(
      title,
      h(
        "form",
        { onsubmit: save },
        h("label", { class: "field" }, h("span", {}, label), input),
        h(
          "footer",
          {},
          button("Back", { onclick: () => shown.close() }),
          h("button", { class: "button primary" }, "Save"),
        ),
      ),
    );
    input.select();
    shown.addEventListener("close", () => resolve(null));
  });
}

export function confirmed(title, sentence, label) {
  return new Promise((resolve) => {
    const yes = () => {
      resolve(true);
      shown.close();
    };
    const shown = dialog(
      title,
      h("p", {}, sentence),
      h(
        "footer",
        {},
        button("Back", { onclick: () => shown.close() }),
        button(label, { class: "button dangerous", onclick: yes }),
      ),
    );
    shown.addEventListener("close", () => resolve(false));
  });
}
