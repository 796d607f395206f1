// Making elements. Text is always text: HTML comes only from the server's Markdown, in markdown.js.

/** An element. `on…` are listeners, `dataset` is spread, true and false are bare or absent attributes. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name in PROPERTIES) element[PROPERTIES[name]] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children
      .flat(Infinity)
      .filter((child) => child || child === 0)
      .map(asNode),
  );
  return element;
}

const PROPERTIES = { class: "className", value: "value", checked: "checked", htmlFor: "htmlFor" };

const asNode = (child) => (child instanceof Node ? child : String(child));

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A picture of those in index.html. It says nothing to a screen reader: what it is on has a name. */
export function icon(name) {
  const use = svg("use", { href: `#icon-${name}` });
  return svg("svg", { class: "icon", "aria-hidden": "true", viewBox: "0 0 16 16" }, use);
}

export function button(label, { icon: picture, ...props } = {}, ...children) {
  return h(
    "button",
    { type: "button", class: "button", ...props },
    picture && icon(picture),
    label,
    ...children,
  );
}

export function iconButton(name, label, props = {}) {
  return h(
    "button",
    { type: "button", class: "icon-button", "aria-label": label, title: label, ...props },
    icon(name),
  );
}

/** Put `wanted` into `parent` in order, moving only what is elsewhere, so that focus and scroll stay. */
export function arrange(parent, wanted) {
  const kept = new Set(wanted);
  for (const child of [...parent.childNodes]) if (!kept.has(child)) child.remove();
  let place = parent.firstChild;
  for (const child of wanted) {
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  }
}
