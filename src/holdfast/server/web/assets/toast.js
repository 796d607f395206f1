// One sentence at the edge of the page: what happened, or what went wrong and what to do.

import { h } from "./dom.js";

const SECONDS = 8;
let leaving;

export function toast(text, kind = "") {
  const place = document.getElementById("toast");
  clearTimeout(leaving);
  place.replaceChildren(...(text ? [h("p", { class: kind }, text)] : []));
  leaving = setTimeout(() => place.replaceChildren(), SECONDS * 1000);
}
