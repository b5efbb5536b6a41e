/** Tokens as a reader sees them. */
import type { Token } from "../api/types";

const LONGEST = 14;
const SIGNS: Record<string, string> = { " ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍" };

/** `</s>` and its kin; `<0xE2>` is a byte of a text and not among them. */
export const isSpecial = ({ text }: Token): boolean => /^<\/?[a-z]+>$/i.test(text);

/** A token's name; what would not be seen has a sign. */
export const seen = (text: string): string => text.replace(/[ \n\t\r]/g, (space) => SIGNS[space] ?? space);

/** A region of a picture begins no word, though it is named as one. */
export const regionName = (text: string): string => text.replace(/^▁/, "");

export function short(text: string): string {
  const letters = [...seen(text)];
  return letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}…` : letters.join("");
}

/** The places of the tokens that are shown */
export function shownPlaces(tokens: Token[], specials: boolean): number[] {
  const all = tokens.map((_, i) => i);
  const plain = all.filter((i) => !isSpecial(tokens[i] as Token));
  return specials || plain.length === 0 ? all : plain;
}
