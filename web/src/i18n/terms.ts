/** Technical terms in the texts of the page. */
import { splitAtWords } from "../model/splitAtWords";

/** The ways a term is written, and its explanation in a sentence or two */
export type Terms = readonly (readonly [words: readonly string[], explanation: string])[];

export interface TextPart {
  text: string;
  /** Of a term at its first mention */
  explanation?: string;
}

/** Split a text into terms, with their explanations, and what is between them. */
export function splitTerms(text: string, terms: Terms): TextPart[] {
  const byWord = new Map(terms.flatMap(([words, explanation]) => words.map((word) => [word.toLowerCase(), explanation] as const)));
  const mentioned = new Set<string>();
  return splitAtWords(text, [...byWord.keys()], "i").flatMap((part, i): TextPart[] => {
    const explanation = i % 2 ? byWord.get(part.toLowerCase()) : undefined;
    if (!explanation || mentioned.has(explanation)) return part ? [{ text: part }] : [];
    mentioned.add(explanation);
    return [{ text: part, explanation }];
  });
}
