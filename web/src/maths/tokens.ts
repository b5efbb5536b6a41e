/** Tokens as the page displays them. */
import type { Piece } from "../api/types";

const MAX_LENGTH = 14;
const SYMBOLS: Record<string, string> = { " ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍" };

/** Whether this is a token such as `</s>`. `<0xE2>` is a byte of the text and not special. */
export const isSpecial = ({ text }: Piece): boolean => /^<\/?[a-z]+>$/i.test(text);

/** The text of a token, with symbols for white space, which would be invisible */
export const visibleText = (text: string): string => text.replace(/[ \n\t\r]/g, (space) => SYMBOLS[space] ?? space);

/** The name of an image region, without the ▁ that marks the beginning of a word */
export const regionName = (text: string): string => text.replace(/^▁/, "");

/** The visible text, shortened with an ellipsis if it is long */
export function shortText(text: string): string {
  const characters = [...visibleText(text)];
  return characters.length > MAX_LENGTH ? `${characters.slice(0, MAX_LENGTH - 1).join("")}…` : characters.join("");
}

/** The positions of the tokens to show: all of them, or all but the special ones unless there are no others */
export function shownPositions(tokens: Piece[], withSpecials: boolean): number[] {
  const all = tokens.map((_, i) => i);
  const ordinary = all.filter((i) => !isSpecial(tokens[i] as Piece));
  return withSpecials || ordinary.length === 0 ? all : ordinary;
}
