// Text of an agent that somebody judges by reading it: nothing in it may hide, or turn the rest around.

// Controls but tab and line end, line ends of other kinds, and what Unicode says may be ignored: marks of
// direction, joiners, letters that fill a place. What shapes an emoji is seen in it.
const CONTROL = /(?![\t\r\n])[\p{Cc}\p{Zl}\p{Zp}]|\r(?!\n|$)/u;
const SHAPING = /(?<=\p{Extended_Pictographic}\ufe0f?)[\u200d\ufe0f]/u;
const IGNORED = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u;
const HIDDEN = new RegExp(`${CONTROL.source}|(?!${SHAPING.source})${IGNORED.source}`, "gu");

const mark = (character) => `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

export const visible = (text) => String(text).replace(HIDDEN, mark);
