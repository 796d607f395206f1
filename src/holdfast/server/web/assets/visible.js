// Text of an agent that somebody judges by reading it: nothing in it may hide, or turn the rest around.

// Controls but tab and line end, and what has no shape: marks of direction, of width none, tags.
const HIDDEN =
  /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]|\r(?!\n|$)/gu;

const mark = (character) => `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

export const visible = (text) => String(text).replace(HIDDEN, mark);
