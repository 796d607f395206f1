// Light or dark: as the system says, until the person says otherwise.

import { icon, iconButton } from "./dom.js";

const KEY = "theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

const current = () => localStorage.getItem(KEY) ?? (dark.matches ? "dark" : "light");

export function themeButton() {
  const element = iconButton("moon", "Light or dark", {
    onclick: () => {
      localStorage.setItem(KEY, current() === "dark" ? "light" : "dark");
      show();
    },
  });
  const show = () => {
    document.documentElement.dataset.theme = current();
    element.replaceChildren(icon(current() === "dark" ? "sun" : "moon"));
  };
  dark.addEventListener("change", show);
  show();
  return element;
}
