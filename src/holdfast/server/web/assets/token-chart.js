// Tokens of each turn: what went in below, what came out above. A bar leads to its turn.

import { svg } from "./dom.js";

const HEIGHT = 56;
const MOST = 40;

export function tokenChart(turns, hrefOf) {
  const shown = turns.slice(-MOST);
  const highest = Math.max(1, ...shown.map(({ usage }) => usage.input + usage.output));
  const width = Math.max(shown.length, 12) * 8;
  const bars = shown.map((turn, index) => bar(turn, index, highest, hrefOf(turn)));
  const label = `Tokens of the last ${shown.length} turns; at most ${highest} in one`;
  return svg(
    "svg",
    {
      class: "token-chart",
      viewBox: `0 0 ${width} ${HEIGHT}`,
      preserveAspectRatio: "xMinYMax",
      role: "group",
      "aria-label": label,
    },
    ...bars,
  );
}

function bar({ sequenceNumber, usage }, index, highest, href) {
  const scale = (tokens) => (tokens * (HEIGHT - 2)) / highest;
  const [input, output] = [scale(usage.input), scale(usage.output)];
  const title = `Turn ${sequenceNumber}: ${usage.input} in, ${usage.output} out`;
  const rect = (kind, y, height) =>
    svg("rect", { class: kind, x: index * 8 + 1, y, width: 6, height: Math.max(height, 0) });
  return svg(
    "a",
    { href, "aria-label": title },
    svg("title", {}, title),
    svg("rect", { class: "hit", x: index * 8, y: 0, width: 8, height: HEIGHT }),
    rect("in", HEIGHT - input, input),
    rect("out", HEIGHT - input - output, output),
    rect("base", HEIGHT - 1, 1),
  );
}
