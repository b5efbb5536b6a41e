/** Words as the page writes them: special tokens by their names in its language. */
import type { Word } from "../model/tokens";
import type { Texts } from "./en";

export const wordText = (t: Texts, { text, special, continues }: Word): string =>
  special === "start" ? t.start : special === "end" ? t.end : continues && text.length > 1 ? `‑${text}` : text;
