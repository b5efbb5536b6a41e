/** Tokenizers that give the same ids as regard: SentencePiece (BPE, unigram), characters, words and bytes. */

const UNKNOWN = 1;
const N_SPECIALS = 6;
const WORD_START = "▁";
const UNKNOWN_PENALTY = 10; // of SentencePiece's unigram models
const utf8 = new TextEncoder();

/** @param {{kind: string}} description  the tokenizer in config.json */
export function makeTokenizer(description) {
  const makers = { bpe: Bpe, unigram: Unigram, char: Symbols, word: Symbols, bytes: Bytes };
  return new makers[description.kind](description);
}

/** What SentencePiece models have in common */
class Pieces {
  constructor({ pieces, scores, bytes }) {
    this.pieces = pieces;
    this.bytes = bytes; // the id of byte 0, or null; the other bytes follow
    this.ids = new Map();
    this.scores = scores;
    pieces.forEach((piece, id) => {
      if (id >= N_SPECIALS && this.byteOf(id) === null) this.ids.set(piece, id);
    });
  }

  byteOf(id) {
    return this.bytes !== null && id >= this.bytes && id < this.bytes + 256 ? id - this.bytes : null;
  }

  /** ▁ before every word; white space at the ends is left out. */
  normalize(text) {
    const words = text.replace(/^ +/, "").replace(/ +/g, WORD_START);
    return (WORD_START + words).replace(/▁+$/, "");
  }

  /** The ids of a piece: of its bytes if it is unknown; several unknown pieces in a row are one. */
  appendIds(piece, ids) {
    const id = this.ids.get(piece);
    if (id !== undefined) ids.push(id);
    else if (this.bytes !== null) ids.push(...[...utf8.encode(piece)].map((byte) => this.bytes + byte));
    else if (ids.at(-1) !== UNKNOWN) ids.push(UNKNOWN);
  }

  decode(ids) {
    let text = "";
    let bytes = [];
    const flush = () => {
      text += decodeBytes(bytes);
      bytes = [];
    };
    for (const id of ids) {
      if (id < N_SPECIALS) continue;
      const byte = this.byteOf(id);
      if (byte !== null) {
        bytes.push(byte);
        continue;
      }
      flush();
      const piece = text === "" && this.pieces[id].startsWith(WORD_START) ? this.pieces[id].slice(1) : this.pieces[id];
      text += piece.replaceAll(WORD_START, " ");
    }
    flush();
    return text;
  }
}

/** Every byte that is not part of a character becomes U+FFFD of its own, as in SentencePiece. */
function decodeBytes(bytes) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let i = 0; i < bytes.length; ) {
    const length = [4, 3, 2, 1].find((n) => {
      try {
        return i + n <= bytes.length && [...decoder.decode(new Uint8Array(bytes.slice(i, i + n)))].length === 1;
      } catch {
        return false;
      }
    });
    text += length ? decoder.decode(new Uint8Array(bytes.slice(i, i + length))) : "\ufffd";
    i += length ?? 1;
  }
  return text;
}

class Bpe extends Pieces {
  encode(text) {
    const ids = [];
    for (const word of this.normalize(text).match(/▁[^▁]*/g) ?? []) {
      for (const piece of this.merge([...word])) this.appendIds(piece, ids);
    }
    return ids;
  }

  /** Merge the pair whose piece has the highest score, the leftmost of several, until no pair is a piece. */
  merge(symbols) {
    for (;;) {
      let bestScore = -Infinity;
      let at = -1;
      for (let i = 0; i + 1 < symbols.length; i++) {
        const id = this.ids.get(symbols[i] + symbols[i + 1]);
        if (id !== undefined && this.scores[id] > bestScore) [bestScore, at] = [this.scores[id], i];
      }
      if (at < 0) return symbols;
      symbols.splice(at, 2, symbols[at] + symbols[at + 1]);
    }
  }
}

class Unigram extends Pieces {
  constructor(description) {
    super(description);
    this.longest = Math.max(...[...this.ids.keys()].map((piece) => [...piece].length));
    this.unknownScore = Math.fround(Math.min(...[...this.ids.values()].map((id) => this.scores[id])) - UNKNOWN_PENALTY);
  }

  /** The segmentation with the highest sum of scores, which are added as 32-bit numbers, as in SentencePiece */
  encode(text) {
    const characters = [...this.normalize(text)];
    const best = [{ score: 0 }];
    for (let start = 0; start < characters.length; start++) {
      let piece = "";
      for (let end = start + 1; end <= Math.min(characters.length, start + this.longest); end++) {
        piece += characters[end - 1];
        const id = this.ids.get(piece);
        if (id === undefined && end > start + 1) continue;
        const score = Math.fround(best[start].score + (id === undefined ? this.unknownScore : this.scores[id]));
        if (!best[end] || score > best[end].score) best[end] = { score, start, piece };
      }
    }
    const pieces = [];
    for (let end = characters.length; end > 0; end = best[end].start) pieces.push(best[end].piece);
    const ids = [];
    for (const piece of pieces.reverse()) this.appendIds(piece, ids);
    return ids;
  }
}

/** Characters, or words separated by spaces */
class Symbols {
  constructor({ kind, pieces }) {
    this.separator = kind === "word" ? " " : "";
    this.pieces = pieces;
    this.ids = new Map(pieces.map((piece, id) => [piece, id]).slice(N_SPECIALS));
  }

  encode(text) {
    if (text === "") return [];
    const symbols = this.separator ? text.split(this.separator) : [...text];
    return symbols.map((symbol) => this.ids.get(symbol) ?? UNKNOWN);
  }

  decode(ids) {
    const kept = ids.filter((id) => id >= N_SPECIALS || id === UNKNOWN);
    return kept.map((id) => this.pieces[id]).join(this.separator);
  }
}

class Bytes {
  encode(text) {
    return [...utf8.encode(text)].map((byte) => N_SPECIALS + byte);
  }

  decode(ids) {
    const bytes = ids.filter((id) => id >= N_SPECIALS).map((id) => id - N_SPECIALS);
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(bytes));
  }
}
