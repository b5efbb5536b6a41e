/** Texts in, translations out; `read` returns the bytes of one of the folder's files. */
import { beam, forcedLogProbs, greedy } from "./search.js";
import { makeTokenizer } from "./tokenizer.js";
import { Transformer } from "./transformer.js";
import { Weights } from "./weights.js";

// What Python's str.split takes for white space
const SPACES = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;

/** The text on one line, with single spaces, and a question mark for what UTF-8 cannot encode */
export function clean(text) {
  const encodable = text.replace(/[\ud800-\udfff]/gu, "?").replace(/^\ufeff/, "");
  return encodable.split(SPACES).filter(Boolean).join(" ");
}

/**
 * The parts of a text, which together are the text: sentences to translate, and what stays as it is (white space, and
 * parts without a letter such as the numbers of a list, if there are others).
 */
export function splitText(text, language) {
  const segments = text.split(/(\n)/).flatMap((line) => splitLine(line, language));
  const hasLetters = /\p{L}/u.test(text);
  return segments.flatMap((segment) => {
    const [, before, sentence, after] = segment.match(/^(\s*)(.*?)(\s*)$/su);
    const isSentence = sentence !== "" && (!hasLetters || /\p{L}/u.test(sentence));
    if (!isSentence) return [{ text: segment, isSentence }];
    return [{ text: before, isSentence: false }, { text: sentence, isSentence }, { text: after, isSentence: false }];
  });
}

function splitLine(line, language) {
  if (typeof Intl.Segmenter !== "function") return [line];
  let segmenter;
  try {
    segmenter = new Intl.Segmenter(language, { granularity: "sentence" });
  } catch {
    segmenter = new Intl.Segmenter("en", { granularity: "sentence" }); // the model's code is not that of a language
  }
  return Array.from(segmenter.segment(line), ({ segment }) => segment);
}

export class Translator {
  static async load(read) {
    const config = JSON.parse(new TextDecoder().decode(await read("config.json")));
    return new Translator(config, new Weights(await read("model.safetensors"), config.shared));
  }

  constructor(config, weights) {
    this.config = config;
    this.model = new Transformer(config, weights);
    this.src = makeTokenizer(config.tokenizers.src);
    this.tgt = config.tokenizers.tgt ? makeTokenizer(config.tokenizers.tgt) : this.src;
  }

  /** Translate a text sentence by sentence; white space between sentences is kept. */
  translate(text, beamWidth) {
    return this.split(text).map((part) => (part.isSentence ? this.translateSentence(part.text, beamWidth) : part.text)).join("");
  }

  split(text) {
    return splitText(text, this.config.languages[0]);
  }

  translateSentence(text, beamWidth) {
    const ids = this.src.encode(clean(text));
    if (ids.length === 0) return "";
    if (ids.length > this.config.max_source) throw new TooLong(ids.length, this.config.max_source);
    const decode = (width, options) => clean(this.tgt.decode(this.search(ids, width, options)));
    // A text that is not empty should get a translation.
    return decode(beamWidth) || decode(Math.max(2, beamWidth), { minLength: Math.max(1, this.config.min_len) });
  }

  /** The ids of the translation of source ids */
  search(source, beamWidth, options = {}) {
    const { special_ids: ids, never_generated: neverGenerated, min_len: minLength, max_len: limit } = this.config;
    const longest = Math.max(minLength, limit ?? 2 * (source.length + 1) + 10);
    const maxLength = Math.min(longest, this.config.max_target ?? Infinity);
    const all = { ...ids, neverGenerated, minLength, maxLength, ...options };
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
