/** The formulas of the lecture in MathML, which browsers render without a library. */
import type { Texts } from "../i18n/en";

const row = (...parts: string[]) => `<mrow>${parts.join("")}</mrow>`;
const i = (name: string) => `<mi>${name}</mi>`;
const v = (name: string) => `<mi mathvariant="bold">${name}</mi>`;
const o = (operator: string) => `<mo>${operator}</mo>`;
const sub = (base: string, index: string) => `<msub>${base}${index}</msub>`;
const frac = (numerator: string, denominator: string) => `<mfrac>${numerator}${denominator}</mfrac>`;
const sum = (under: string) => `<munder><mo>∑</mo>${under}</munder>`;
const sup = (base: string, power: string) => `<msup>${base}${power}</msup>`;
const root = (radicand: string) => `<msqrt>${radicand}</msqrt>`;
const math = (...parts: string[]) => `<math display="block">${parts.join("")}</math>`;

const [q, x, j] = [v("q"), v("x"), i("j")];
const k = sub(v("k"), j);
const value = sub(v("v"), j);
const e = sub(i("e"), j);
const alpha = sub(i("α"), j);
const W = (name: string) => sub(i("W"), i(name));
const shifted = (index: string) => sup(i("e"), row(sub(i("e"), index), o("−"), i("m")));

/** The formulas, with the few words in them in the language of the page */
export const formulas = (words: Texts["formulaWords"]) => ({
  embed: math(x, o("="), sub(i("E"), i("w")), o("+"), sub(v("p"), i("pos"))),
  region: math(x, o("="), i("f"), o("("), i(words.region), o(")"), o("+"), sub(v("p"), i("pos"))),
  above: math(x, o("="), i(words.layer), o("("), sub(x, i(words.below)), o(")")),
  state: math(q, o("="), sub(v("s"), i("t")), o(",&nbsp;"), k, o("="), value, o("="), sub(v("h"), j)),
  stateAndInput: math(
    ...[q, o("="), o("["), sub(v("s"), row(i("t"), o("−"), i("1"))), o(";"), sub(x, i("t")), o("]")],
    ...[o(",&nbsp;"), k, o("="), value, o("="), sub(v("h"), j)],
  ),
  qkv: math(q, o("="), x, W("Q"), o(",&nbsp;"), k, o("="), sub(x, j), W("K"), o(",&nbsp;"), value, o("="), sub(x, j), W("V")),
  product: math(sub(i("p"), j), o("="), q, o("·"), k, o("="), sum(i("c")), sub(i("q"), i("c")), sub(i("k"), row(j, i("c")))),
  other: math(e, o("="), i(words.score), o("("), q, o(","), k, o(")")),
  cosine: math(e, o("="), frac(row(q, o("·"), k), row(o("‖"), q, o("‖"), o("‖"), k, o("‖")))),
  bilinear: math(e, o("="), sup(q, i("T")), i("W"), k),
  additive: math(e, o("="), sup(v("w"), i("T")), i("tanh"), o("("), W("q"), q, o("+"), W("k"), k, o("+"), v("b"), o(")")),
  location: math(e, o("="), sub(row(o("("), W("a"), q, o("+"), sub(v("b"), i("a")), o(")")), j)),
  scale: math(e, o("="), frac(row(q, o("·"), k), root(sub(i("d"), i("k"))))),
  unscaled: math(e, o("="), q, o("·"), k),
  mask: math(e, o("←"), o("−"), i("∞"), `<mtext>&nbsp;</mtext>`, i(words.masked), o("("), j, o(")")),
  softmax: math(alpha, o("="), frac(shifted(j), row(sum(i("i")), shifted(i("i")))), o(",&nbsp;"), i("m"), o("="), i("max"), sub(i("e"), i("i"))),
  hardmax: math(alpha, o("="), i("1"), o("["), j, o("="), i("argmax"), sub(i("e"), i("i")), o("]")),
  divide: math(alpha, o("="), frac(e, row(sum(i("i")), sub(i("e"), i("i"))))),
  none: math(alpha, o("="), e),
  exp: math(alpha, o("="), sup(i("e"), e)),
  sum: math(v("o"), o("="), sum(j), alpha, value),
  output: math(v("y"), o("="), x, o("+"), o("["), sub(v("o"), i("1")), o(";"), o("…"), o(";"), sub(v("o"), i("H")), o("]"), W("O")),
  predictFromState: [
    math(v("z"), o("="), i("ReLU"), o("("), W("c"), o("["), sub(x, i("t")), o(";"), v("o"), o("]"), o("+"), sub(v("b"), i("c")), o(")")),
    math(sub(v("s"), i("t")), o("="), i("RNN"), o("("), v("z"), o(","), sub(v("s"), row(i("t"), o("−"), i("1"))), o(")")),
    math(i("p"), o("("), sub(i("y"), i("t")), o(")"), o("="), i("softmax"), o("("), i("W"), sub(v("s"), i("t")), o(")")),
  ].join(""),
  predict: math(i("p"), o("("), sub(i("y"), i("t")), o(")"), o("="), i("softmax"), o("("), i("W"), o("["), v("o"), o(";"), sub(v("s"), i("t")), o("]"), o(")")),
});
