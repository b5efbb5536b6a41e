/** Tokens as the page shows them. */
import type { Piece } from "../api/types";

export interface Word {
  /** As it is shown: without the mark of word beginnings, with symbols for white space */
  text: string;
  /** A token such as </s>; it is shown as a word of the page's language, in italics */
  special: "" | "start" | "end" | "other";
  /** Whether it continues the word of the token before it */
  continues: boolean;
}

const SYMBOLS: Record<string, string> = { " ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍" };
const BYTE = /^<0x([0-9A-F]{2})>$/i;
const SPECIAL = /^<\/?[a-z]+>$/i;

export const isSpecial = ({ text }: Piece): boolean => SPECIAL.test(text);

/** The text of a token, with symbols for white space, which would be invisible */
export const visibleText = (text: string): string => text.replace(/[ \n\t\r]/g, (space) => SYMBOLS[space] ?? space);

/** The words to show for the tokens of a sentence. The bytes of one character are numbered: ✓₁ ✓₂ ✓₃ */
export function toWords(pieces: readonly Piece[]): Word[] {
  return pieces.map((piece, i) => {
    const special = !isSpecial(piece) ? "" : piece.text === "<s>" ? "start" : piece.text === "</s>" ? "end" : "other";
    const continues = !special && i > 0 && piece.word >= 0 && piece.word === pieces[i - 1]?.word;
    return { text: textOf(piece), special, continues };
  });
}

function textOf({ text, character }: Piece): string {
  if (character) return visibleText(character.text) + (character.count > 1 ? "₁₂₃₄"[character.index] : "");
  return visibleText(text.replace(/^▁/, "")).replace(BYTE, (_, hex: string) => `⟨${hex.toLowerCase()}⟩`) || "␣";
}

/** The text, shortened with an ellipsis if it is long */
export function shorten(text: string, length = 14): string {
  const characters = [...text];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : text;
}

/** Tokens of one vocabulary entry on its own, for example a candidate */
export const wordOf = (text: string): Word => toWords([{ text, word: -1, character: null }])[0] as Word;
