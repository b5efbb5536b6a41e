import { expect, test } from "vitest";
import { en } from "../src/i18n/en";
import { fr } from "../src/i18n/fr";
import { stepText, type LectureSubject } from "../src/lecture/stepText";
import type { HeadComputation } from "../src/maths/headComputation";

const token = (text: string) => ({ id: 1, text, word: 0 });
const computation = {
  q: new Float32Array(2),
  K: { rows: 3, columns: 2, data: new Float32Array(6) },
  score: "scaled-dot",
  normalise: "softmax",
  context: "layer",
  scale: 0.5,
  recomputed: true,
  mask: [true, true, false],
  soft: { max: 1.5, sum: 2.25 },
  share: 1,
} as unknown as HeadComputation;
const site = { name: "encoder", rows: "source", columns: "source", layers: 1, heads: 2, causal: false } as const;
const subject: LectureSubject = {
  computation,
  site,
  hasEncoder: true,
  isRegion: false,
  token: token("▁la"),
  layer: 0,
  position: 1,
  width: 16,
};

test("every step has a text, with the numbers of the query", () => {
  for (const t of [en, fr]) for (let step = 1; step <= 8; step++) expect(stepText(step, t, subject)).not.toBe("");
  expect(stepText(1, en, subject)).toMatch(/▁la, at position 1.* 16 numbers/);
  expect(stepText(6, fr, subject)).toMatch(/1,5000.*2,2500/);
});

test("an RNN decoder has its own equations, by where its context vector goes", () => {
  const [QUERY, OUTPUT] = [1, 8];
  const rnn = (context: string) => ({ ...subject, lastRead: token("▁red"), computation: { ...computation, context } });
  expect(stepText(QUERY, en, rnn("output"))).toMatch(/^The query is the decoder’s state just before it generates ▁la/);
  expect(stepText(QUERY, en, rnn("input"))).toMatch(/state before this step, and the embedding of ▁red/);
  expect(stepText(OUTPUT, en, rnn("output"))).toMatch(/state together predict/);
  expect(stepText(OUTPUT, en, rnn("input"))).toMatch(/new state alone predicts/);
  expect(stepText(OUTPUT, en, subject)).toMatch(/2 heads are concatenated/);
});

test("attention is called causal if the server says so, whatever the site is named", () => {
  const MASK = 5;
  expect(stepText(MASK, en, subject)).toBe("1 key is masked: its score becomes −∞.");
  for (const name of ["encoder", "decoder", "cross"] as const) {
    expect(stepText(MASK, en, { ...subject, site: { ...site, name, causal: true } })).toMatch(/^This attention is causal/);
    expect(stepText(MASK, en, { ...subject, site: { ...site, name, causal: false } })).not.toMatch(/causal/);
  }
});
