/** An encoder-decoder Transformer that reads one sentence and any number of hypotheses of its translation. */
import { ACTIVATIONS, add, gate, layerNorm, rmsNorm, softmax } from "./maths.js";
import { dot } from "./matrix.js";

/** Keys and values of earlier tokens, side by side in rows of one array that grows */
class Cache {
  constructor(width, entries = new Float32Array(0), length = 0) {
    Object.assign(this, { width, entries, length });
  }

  append(rows) {
    const end = this.length * this.width;
    if (end + rows.length > this.entries.length) {
      const larger = new Float32Array(2 * (end + rows.length));
      larger.set(this.entries.subarray(0, end));
      this.entries = larger;
    }
    this.entries.set(rows, end);
    this.length += rows.length / this.width;
  }

  copy() {
    return new Cache(this.width, this.entries.slice(0, this.length * this.width), this.length);
  }
}

/** Encoder or decoder: what its layers have in common. `options` are those of the stack in config.json. */
class Stack {
  constructor(name, options, weights) {
    Object.assign(this, { name, options, weights });
    const { n_heads: heads, d_key: key, d_value: value, n_kv_heads: kvHeads } = options;
    Object.assign(this, { heads, key, value, kvHeads, cacheWidth: kvHeads * (key + value) });
    this.periods = weights.get(`${name}.rope_periods`); // of rotary positions
  }

  layers() {
    return Array.from({ length: this.options.n_layers }, (_, i) => `${this.name}.layers.${i}`);
  }

  /** Embed ids at the given positions. */
  embed(ids, positions) {
    const { d_model: width, embedding_scale: scale, join } = this.options;
    const table = this.weights.get(`${this.name}.embedding.tokens.weight`);
    const learned = this.weights.get(`${this.name}.embedding.positions.table`);
    const x = new Float32Array(ids.length * width);
    const p = new Float32Array(ids.length * width);
    ids.forEach((id, row) => {
      for (let i = 0; i < width; i++) {
        x[row * width + i] = table[id * width + i] * scale;
        p[row * width + i] = learned ? learned[positions[row] * width + i] : this.sinusoid(positions[row], i);
      }
    });
    const joined = join === "add" ? add(x, p) : this.join(x, p, width);
    return this.options.embedding_norm ? this.norm(joined, `${this.name}.embedding.norm`) : joined;
  }

  /** PE(pos, 2i) = sin(pos / 10000^{2i/d}), PE(pos, 2i + 1) = cos(…); 0 if positions are not vectors */
  sinusoid(position, i) {
    if (this.options.positions !== "sinusoidal") return 0;
    const angle = position / 10000 ** ((i - (i % 2)) / this.options.d_model);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  }

  /** W [x ; p] */
  join(x, p, width) {
    const both = new Float32Array(2 * x.length);
    for (let row = 0; row * width < x.length; row++) {
      both.set(x.subarray(row * width, (row + 1) * width), 2 * row * width);
      both.set(p.subarray(row * width, (row + 1) * width), (2 * row + 1) * width);
    }
    return this.linear(both, `${this.name}.embedding.join.mix`, 2 * width);
  }

  linear(x, name, nIn) {
    return this.weights.linear(x, name, nIn);
  }

  norm(x, name) {
    const { norm_kind: kind, norm_eps: epsilon } = this.options;
    const weight = this.weights.get(`${name}.weight`);
    return kind === "rms" ? rmsNorm(x, weight, epsilon) : layerNorm(x, weight, this.weights.get(`${name}.bias`), epsilon);
  }

  /** Residual connection around f. pre: x + f(norm(x)); post: norm(x + f(x)) */
  residual(x, name, f) {
    if (this.options.norm === "pre") return add(x, f(this.norm(x, `${name}.norm`)));
    return this.norm(add(x, f(x)), `${name}.norm`);
  }

  /** The norm after the last of pre-norm layers */
  last(x) {
    return this.options.norm === "pre" ? this.norm(x, `${this.name}.norm`) : x;
  }

  feedForward(x, name) {
    const { d_model: width, d_ff: inner, activation } = this.options;
    const h = this.linear(x, `${name}.inner`, width);
    if (activation === "swiglu") return this.linear(gate(h, inner), `${name}.outer`, inner);
    return this.linear(h.map(ACTIVATIONS[activation]), `${name}.outer`, inner);
  }

  queries(x, name) {
    return this.linear(x, `${name}.query`, this.options.d_model);
  }

  keysValues(x, name, nIn = this.options.d_model) {
    return this.linear(x, `${name}.key_value`, nIn);
  }

  /** RoPE: rotate the pair (x_i, x_{i + K/2}) of each of the first `heads` heads of a row by position / period_i. */
  rotate(x, heads, positions) {
    if (this.options.positions !== "rotary") return;
    const half = this.key / 2;
    const width = x.length / positions.length;
    positions.forEach((position, row) => {
      for (let i = 0; i < half; i++) {
        const angle = position / this.periods[i];
        const cos = Math.cos(angle);
        const sin = Math.sin(angle);
        for (let h = 0; h < heads; h++) {
          const left = row * width + h * this.key + i;
          const [a, b] = [x[left], x[left + half]];
          x[left] = a * cos - b * sin;
          x[left + half] = b * cos + a * sin;
        }
      }
    });
  }

  /**
   * Attend from one query per head, in `q` from `fromQ` on, to the first `n` rows of `entries`; add nothing to the scores
   * unless ALiBi is used, which needs the query's own position. Writes the heads to `out` from `to` on.
   */
  attend(q, fromQ, entries, n, out, to, position) {
    const { heads, key, value, kvHeads, cacheWidth } = this;
    const scores = new Float32Array(n);
    const scale = this.options.score_scale;
    for (let h = 0; h < heads; h++) {
      const kv = Math.floor((h * kvHeads) / heads);
      const slope = position !== undefined && this.options.positions === "alibi" ? 2 ** ((-8 * (h + 1)) / heads) : 0;
      for (let j = 0; j < n; j++) {
        scores[j] = dot(q, fromQ + h * key, entries, j * cacheWidth + kv * key, key) * scale;
        if (slope) scores[j] -= slope * Math.abs(position - j);
      }
      softmax(scores, n);
      const first = kvHeads * key + kv * value;
      for (let j = 0; j < n; j++) {
        const from = j * cacheWidth + first;
        for (let i = 0; i < value; i++) out[to + h * value + i] += scores[j] * entries[from + i];
      }
    }
  }

  joinHeads(heads, name) {
    return this.linear(heads, `${name}.out`, this.heads * this.value);
  }
}

class Encoder extends Stack {
  encode(ids) {
    const positions = ids.map((_, i) => i);
    let x = this.embed(ids, positions);
    for (const layer of this.layers()) {
      x = this.residual(x, `${layer}.mixer_residual`, (h) => this.selfAttention(h, `${layer}.mixer`, positions));
      x = this.residual(x, `${layer}.feedforward_residual`, (h) => this.feedForward(h, `${layer}.feedforward`));
    }
    return this.last(x);
  }

  selfAttention(x, name, positions) {
    const [q, kv] = [this.queries(x, name), this.keysValues(x, name)];
    this.rotate(q, this.heads, positions);
    this.rotate(kv, this.kvHeads, positions);
    const n = positions.length;
    const out = new Float32Array(n * this.heads * this.value);
    for (let t = 0; t < n; t++) {
      this.attend(q, t * this.heads * this.key, kv, n, out, t * this.heads * this.value, t);
    }
    return this.joinHeads(out, name);
  }
}

class Decoder extends Stack {
  /** The keys and values of the source for each layer */
  source(encoded, width) {
    return this.layers().map((layer) => this.keysValues(encoded, `${layer}.cross`, width));
  }

  /** Read one token of each hypothesis. `caches` has one list per hypothesis, with a cache per layer. */
  step(ids, caches, source) {
    let x = this.embed(ids, caches.map((layers) => layers[0].length));
    this.layers().forEach((layer, i) => {
      const attendSelf = (h) => this.selfAttention(h, `${layer}.mixer`, caches.map((layers) => layers[i]));
      x = this.residual(x, `${layer}.mixer_residual`, attendSelf);
      x = this.residual(x, `${layer}.cross_residual`, (h) => this.crossAttention(h, `${layer}.cross`, source[i]));
      x = this.residual(x, `${layer}.feedforward_residual`, (h) => this.feedForward(h, `${layer}.feedforward`));
    });
    return this.last(x);
  }

  selfAttention(x, name, caches) {
    const positions = caches.map((cache) => cache.length);
    const [q, kv] = [this.queries(x, name), this.keysValues(x, name)];
    this.rotate(q, this.heads, positions);
    this.rotate(kv, this.kvHeads, positions);
    const out = new Float32Array(caches.length * this.heads * this.value);
    caches.forEach((cache, row) => {
      cache.append(kv.subarray(row * this.cacheWidth, (row + 1) * this.cacheWidth));
      const [fromQ, to] = [row * this.heads * this.key, row * this.heads * this.value];
      this.attend(q, fromQ, cache.entries, cache.length, out, to, positions[row]);
    });
    return this.joinHeads(out, name);
  }

  crossAttention(x, name, source) {
    const q = this.queries(x, name);
    const rows = x.length / this.options.d_model;
    const out = new Float32Array(rows * this.heads * this.value);
    for (let row = 0; row < rows; row++) {
      const [fromQ, to] = [row * this.heads * this.key, row * this.heads * this.value];
      this.attend(q, fromQ, source, source.length / this.cacheWidth, out, to);
    }
    return this.joinHeads(out, name);
  }
}

export class Transformer {
  constructor(config, weights) {
    this.encoder = new Encoder("encoder", config.encoder, weights);
    this.decoder = new Decoder("decoder", config.decoder, weights);
  }

  /** The state before the first target token, for source ids that end in EOS: one hypothesis */
  start(ids) {
    const { cacheWidth, options } = this.decoder;
    const source = this.decoder.source(this.encoder.encode(ids), this.encoder.options.d_model);
    return { source, caches: [Array.from({ length: options.n_layers }, () => new Cache(cacheWidth))] };
  }

  /** Read one token of each hypothesis; returns the logits of the next one, one array per hypothesis. */
  step(state, ids) {
    const h = this.decoder.step(ids, state.caches, state.source);
    const width = this.decoder.options.d_model;
    const logits = this.decoder.linear(h, "output", width);
    const n = logits.length / ids.length;
    return ids.map((_, row) => logits.subarray(row * n, (row + 1) * n));
  }

  /** The state of the hypotheses `rows`; one that occurs again is copied. */
  select(state, rows) {
    const caches = rows.map((row, i) =>
      rows.indexOf(row) === i ? state.caches[row] : state.caches[row].map((cache) => cache.copy()),
    );
    return { source: state.source, caches };
  }
}
