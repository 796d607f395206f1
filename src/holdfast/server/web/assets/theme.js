// Light or dark: as the system says, until the person says otherwise. What was said holds from the
// first paint of every page on, by chosen-theme.js.

import { icon, iconButton } from "./dom.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

const current = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");

export function themeButton() {
  const element = iconButton("moon", "Light or dark", {
    onclick: () => {
      const chosen = current() === "dark" ? "light" : "dark";
      localStorage.setItem("theme", chosen);
      document.documentElement.dataset.theme = chosen;
      show();
    },
  });
  const show = () => element.replaceChildren(icon(current() === "dark" ? "sun" : "moon"));
  dark.addEventListener("change", show);
  show();
  return element;
}
