const LETTER = "[\\p{L}\\p{N}\\p{M}]";
const HAS_LETTER = new RegExp(LETTER, "u");
const UNSPACED = /^[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;

/**
 * Split a text at some words: parts 1, 3, 5 … are these words, the others what is between them. A word inside of a longer
 * one is not split off, except in scripts without spaces; of two words that begin alike, the longer one is.
 */
export function splitAtWords(text: string, words: readonly string[], flags = ""): string[] {
  if (!words.length) return [text];
  const patterns = [...words].sort((a, b) => b.length - a.length).map((word) => {
    const escaped = word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
    return UNSPACED.test(word) || !HAS_LETTER.test(word) ? escaped : `(?<!${LETTER})${escaped}(?!${LETTER})`;
  });
  return text.split(new RegExp(`(${patterns.join("|")})`, `u${flags}`));
}
