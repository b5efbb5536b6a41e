/** The language of the page: the browser's, until the user picks another. */
import { en, type Texts } from "./en";
import { fr } from "./fr";

export const LANGUAGES = { en, fr };
export type Language = keyof typeof LANGUAGES;

class PageLanguage {
  code = $state<Language>(navigator.language.startsWith("fr") ? "fr" : "en");
  readonly texts = $derived<Texts>(LANGUAGES[this.code]);
}

export const language = new PageLanguage();

const UNNAMED = ["src", "tgt"]; // what a model has whose languages are not known; src is also a code of Sardinian

/** The name of a language in the language of the page; the code itself if it is not one that browsers know */
export function nameOf(code: string): string {
  if (UNNAMED.includes(code)) return code;
  try {
    return new Intl.DisplayNames([language.code], { type: "language" }).of(code) ?? code;
  } catch {
    return code;
  }
}
