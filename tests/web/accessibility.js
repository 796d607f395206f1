// What is wrong with the page for people who cannot see it well, or at all: a list of sentences.
// Names of controls and pictures, ids that are there twice, the order of headings, and contrast.
() => {
  const found = [];
  const say = (sentence, element) => found.push(`${sentence}: ${element.outerHTML.slice(0, 160)}`);
  const isShown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  const named = (element) => {
    const by = (element.getAttribute("aria-labelledby") ?? "")
      .split(" ")
      .map((id) => document.getElementById(id));
    const labels = [...(element.labels ?? [])].map((label) => label.textContent);
    const words = [element.getAttribute("aria-label"), ...by.map((each) => each?.textContent), ...labels];
    return [...words, element.textContent].some((text) => text?.trim());
  };
  const controls = "button, a[href], select, textarea, summary, [role=button], input:not([type=hidden])";
  for (const element of document.querySelectorAll(controls)) {
    const nameless = element.matches("select, textarea, input")
      ? !element.getAttribute("aria-label")?.trim() &&
        ![...element.labels].some((label) => label.textContent.trim())
      : !named(element);
    if (isShown(element) && nameless) say("A control without a name", element);
  }
  for (const image of document.querySelectorAll("img:not([alt])")) say("A picture without a text", image);
  for (const part of document.querySelectorAll("dialog, nav, aside, [role=group], [role=log], progress")) {
    if (
      isShown(part) &&
      !part.hasAttribute("aria-label") &&
      !part.hasAttribute("aria-labelledby") &&
      !part.matches(".note")
    ) {
      say("A part without a name", part);
    }
  }

  const ids = new Set();
  for (const element of document.querySelectorAll("[id]")) {
    if (ids.has(element.id)) say("An id that is there twice", element);
    ids.add(element.id);
  }
  const headings = [...document.querySelectorAll("h1")].filter(isShown);
  if (headings.length !== 1) found.push(`A page has one main heading, not ${headings.length}`);
  if (!document.documentElement.lang) found.push("The page does not say its language");
  if (!document.querySelector("main")) found.push("The page has no main part");

  const painter = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    painter.clearRect(0, 0, 1, 1);
    painter.fillStyle = colour;
    painter.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = painter.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [br, bg, bb]) => [
    r * a + br * (1 - a),
    g * a + bg * (1 - a),
    b * a + bb * (1 - a),
    1,
  ];
  const backgroundOf = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const colour = rgba(getComputedStyle(each).backgroundColor);
      layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (
      !texts.currentNode.textContent.trim() ||
      !isShown(element) ||
      element.closest(":disabled, .sr-only, .skip, option")
    )
      continue;
    const style = getComputedStyle(element);
    const behind = backgroundOf(element);
    const [a, b] = [light(over(rgba(style.color), behind)), light(behind)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const isLarge =
      parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) say(`A contrast of ${ratio.toFixed(2)}`, element);
  }
  return found;
};
