/** Texts in, translations out; `read` returns the bytes of one of the folder's files. */
import { beam, forcedLogProbs, greedy } from "./search.js";
import { makeTokenizer } from "./tokenizer.js";
import { Transformer } from "./transformer.js";
import { readWeights } from "./weights.js";

// What Python's str.split takes for white space
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;

/** The text on one line, with single spaces, and a question mark for what UTF-8 cannot encode */
export function clean(text) {
  const encodable = text.replace(/[\ud800-\udfff]/gu, "?").replace(/^\ufeff/, "");
  return encodable.split(SPACES).filter(Boolean).join(" ");
}

/** The sentences of a line and the white space after each */
export function splitSentences(line, language) {
  if (typeof Intl.Segmenter !== "function") return [line];
  let locale = language;
  try {
    Intl.getCanonicalLocales(language);
  } catch {
    locale = "en";
  }
  return [...new Intl.Segmenter(locale, { granularity: "sentence" }).segment(line)].map(({ segment }) => segment);
}

export class Translator {
  static async load(read) {
    const config = JSON.parse(new TextDecoder().decode(await read("config.json")));
    const weights = readWeights(await read("model.safetensors"));
    return new Translator(config, weights);
  }

  constructor(config, weights) {
    this.config = config;
    for (const [name, same] of Object.entries(config.shared)) weights.set(name, weights.get(same));
    this.model = new Transformer(config, weights);
    this.src = makeTokenizer(config.tokenizers.src);
    this.tgt = config.tokenizers.tgt ? makeTokenizer(config.tokenizers.tgt) : this.src;
  }

  /** Translate a text line by line and sentence by sentence; white space between sentences is kept. */
  translate(text, beamWidth = 1) {
    return text.split("\n").map((line) => this.translateLine(line, beamWidth)).join("\n");
  }

  translateLine(line, beamWidth) {
    const parts = splitSentences(line, this.config.languages[0]);
    return parts.map((part) => this.translateSentence(part, beamWidth) + part.match(/\s*$/u)[0]).join("");
  }

  translateSentence(text, beamWidth) {
    const ids = this.src.encode(clean(text));
    if (ids.length === 0) return "";
    if (ids.length > this.config.max_source) throw new TooLong(ids.length, this.config.max_source);
    return clean(this.tgt.decode(this.search(ids, beamWidth)));
  }

  /** The ids of the translation of source ids */
  search(source, beamWidth, options = {}) {
    const maxLength = Math.min(2 * (source.length + 1) + 10, this.config.max_target ?? Infinity);
    const all = { ...this.config.special_ids, neverGenerated: this.config.never_generated, maxLength, ...options };
    if (beamWidth === 1) return greedy(this.model, source, all);
    return beam(this.model, source, { ...all, width: beamWidth, lengthPenalty: this.config.length_penalty });
  }

  logProbs(source, target) {
    return forcedLogProbs(this.model, source, target, this.config.special_ids);
  }
}

export class TooLong extends Error {
  constructor(n, limit) {
    super(`A sentence has ${n} tokens; the model reads at most ${limit}. Split it.`);
  }
}
