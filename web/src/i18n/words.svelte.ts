/** The language of the page: the browser's, until the reader chooses. */
import { en, type Words } from "./en";
import { fr } from "./fr";

export const LANGUAGES = { en, fr };
export type Language = keyof typeof LANGUAGES;

class Speech {
  language = $state<Language>(navigator.language.startsWith("fr") ? "fr" : "en");
  readonly words = $derived<Words>(LANGUAGES[this.language]);

  /** A whole number, grouped the way the language does it */
  count(n: number): string {
    return n.toLocaleString(this.language);
  }

  /** 2.1 M, 855 k */
  compact(n: number): string {
    return Intl.NumberFormat(this.language, { notation: "compact", maximumSignificantDigits: 3 }).format(n);
  }
}

export const speech = new Speech();
