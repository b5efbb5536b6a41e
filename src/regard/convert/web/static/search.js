/** Greedy and beam search, as regard does them. */
import { logSoftmax } from "./maths.js";

/** The most likely token at every step; returns ids without BOS and EOS. */
export function greedy(model, source, { bos, eos, neverGenerated, maxLength, minLength = 0, prefix = [] }) {
  const state = model.start([...source, eos]);
  const output = [];
  let last = bos;
  while (output.length < maxLength) {
    const [logits] = model.step(state, [last]);
    const forbidden = output.length < minLength ? [...neverGenerated, eos] : neverGenerated;
    last = output.length < prefix.length ? prefix[output.length] : best(suppress(logits, forbidden));
    if (last === eos) break;
    output.push(last);
  }
  return output;
}

/** The log-probability of each target token, and of EOS after them */
export function forcedLogProbs(model, source, target, { bos, eos }) {
  const state = model.start([...source, eos]);
  const read = [bos, ...target];
  return [...target, eos].map((id, i) => logSoftmax(model.step(state, [read[i]])[0])[id]);
}

/**
 * The k best hypotheses are extended in parallel. Of the k best continuations those that end are finished; lower-ranked
 * ones fill their places until k hypotheses have finished. Scores are divided by ((5 + length) / 6)^α.
 */
export function beam(model, source, { bos, eos, neverGenerated, maxLength, minLength = 0, width, lengthPenalty }) {
  const penalty = (length) => ((5 + length) / 6) ** lengthPenalty;
  let state = model.start([...source, eos]);
  let open = [{ ids: [], total: 0 }];
  const finished = [];
  for (let length = 1; open.length > 0; length++) {
    const logits = model.step(state, open.map(({ ids }) => ids.at(-1) ?? bos));
    const candidates = open.flatMap(({ total }, row) => {
      const forbidden = length <= minLength ? [...neverGenerated, eos] : neverGenerated;
      const logProbs = suppress(logSoftmax(logits[row]), forbidden);
      // After the last token there is only EOS.
      const ids = length > maxLength ? [eos] : largest(logProbs, 2 * width);
      return ids.map((id) => ({ row, id, total: total + logProbs[id] }));
    });
    const ranked = candidates.sort((a, b) => b.total - a.total).slice(0, 2 * width);
    const ends = ranked.slice(0, width).filter(({ id }) => id === eos);
    finished.push(...ends.map(({ row, total }) => ({ ids: open[row].ids, score: total / penalty(length) })));
    const places = finished.length < width ? ranked : ranked.slice(0, width);
    const kept = places.filter(({ id }) => id !== eos).slice(0, width);
    const bestScore = Math.max(...finished.map(({ score }) => score));
    if (finished.length >= width && !(kept[0]?.total / penalty(maxLength + 1) > bestScore)) break;
    state = model.select(state, kept.map(({ row }) => row));
    open = kept.map(({ row, id, total }) => ({ ids: [...open[row].ids, id], total }));
  }
  return finished.reduce((a, b) => (b.score > a.score ? b : a)).ids;
}

function suppress(values, ids) {
  for (const id of ids) values[id] = -Infinity;
  return values;
}

function best(values) {
  let at = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[at]) at = i;
  return at;
}

/** The positions of the n largest values, largest first */
function largest(values, n) {
  const found = [];
  let smallest = -Infinity; // of those found, once there are n
  for (let i = 0; i < values.length; i++) {
    if (!(values[i] > smallest)) continue;
    let place = found.length;
    while (place > 0 && values[found[place - 1]] < values[i]) place--;
    found.splice(place, 0, i);
    if (found.length > n) found.pop();
    if (found.length === n) smallest = values[found[n - 1]];
  }
  return found;
}
