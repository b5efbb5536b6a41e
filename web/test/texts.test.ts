import { expect, test } from "vitest";
import { en } from "../src/i18n/en";
import { fr } from "../src/i18n/fr";
import { numberFormat, parseNumber } from "../src/i18n/number";
import { splitTerms } from "../src/i18n/terms";

const [english, french] = [numberFormat("en"), numberFormat("fr")];
const NARROW = "\u202f";

test("decimals have a point in English and a comma in French, a minus sign, and no sign before zero", () => {
  expect([english.decimal(-1.23456), english.decimal(-Infinity), english.decimal(2, 1)]).toEqual(["−1.2346", "−∞", "2.0"]);
  expect([french.decimal(-1.23456), french.decimal(Infinity), french.decimal(2, 1)]).toEqual(["−1,2346", "∞", "2,0"]);
  expect([english.decimal(-0.00001), english.decimal(-0.00006)]).toEqual(["0.0000", "−0.0001"]);
  expect([french.decimal(-0.00001), french.decimal(-0.00006)]).toEqual(["0,0000", "−0,0001"]);
  expect([english.shortest(1), french.shortest(0.65)]).toEqual(["1", "0,65"]);
});

test("thousands are grouped by commas in English and narrow no-break spaces in French", () => {
  expect([english.count(1234567), english.decimal(1234.5, 1)]).toEqual(["1,234,567", "1,234.5"]);
  expect([french.count(1234567), french.decimal(1234.5, 1)]).toEqual([`1${NARROW}234${NARROW}567`, `1${NARROW}234,5`]);
  expect([english.compact(2_140_000), french.compact(2_140_000)]).toEqual(["2.14M", "2,14\u00a0M"]);
});

test("small probabilities get a decimal, and French has a space before the percent sign", () => {
  expect([0.5, 0.0123, 0.0001].map(english.percent)).toEqual(["50%", "1.2%", "<0.1%"]);
  const spaced = [0.5, 0.0123, 0.0001].map(french.percent);
  expect(spaced.map((text) => text.replace(/[\u00a0\u202f]%$/, "_%"))).toEqual(["50_%", "1,2_%", "<0,1_%"]);
});

test("the components of a vector are separated by semicolons where the comma is the decimal sign", () => {
  expect(english.list([0.5, -1], 1)).toBe("0.5, −1.0");
  expect(french.list([0.5, -1], 1)).toBe(`0,5${NARROW}; −1,0`);
});

test("differences are given by their order of magnitude", () => {
  expect([english.magnitude(3.2e-7), french.magnitude(3.2e-7), english.magnitude(0)]).toEqual(["3e−7", "3e−7", "0"]);
});

test("numbers can be typed with a point or a comma", () => {
  expect(["0.6", "0,6", " 1,5 ", "−2", "7"].map(parseNumber)).toEqual([0.6, 0.6, 1.5, -2, 7]);
  expect(["", " ", "a", "1,2,3", "∞"].map(parseNumber)).toEqual([null, null, null, null, null]);
});

/** All texts of a language; those of functions for the given number, or for a name where they expect one */
function textsOf(value: unknown, argument: number): string[] {
  if (typeof value === "string") return [value];
  if (typeof value === "function") {
    const call = (each: number | string) => textsOf((value as (...args: unknown[]) => unknown)(...Array(5).fill(each)), argument);
    try {
      return call(argument);
    } catch {
      return call("name");
    }
  }
  return Object.values(value as object).flatMap((each) => textsOf(each, argument));
}
const textsIn = ({ number: _, terms, ...texts }: typeof en, argument: number) => textsOf({ ...texts, terms: terms.map(([, explanation]) => explanation) }, argument);

test("every language has all texts", () => {
  const names = (value: unknown): string[] =>
    typeof value === "object" && value !== null ? Object.entries(value).flatMap(([key, each]) => [key, ...names(each)]) : [];
  expect(names({ ...fr, terms: [] })).toEqual(names({ ...en, terms: [] })); // a term may have more forms in one language
  expect(fr.terms).toHaveLength(en.terms.length);
  expect(textsIn(fr, 2)).toHaveLength(textsIn(en, 2).length);
  expect(fr.translate).not.toBe(en.translate);
});

test("no French text has a decimal point, and no English one a decimal comma", () => {
  const fraction = 0.123456;
  expect(textsIn(fr, fraction).filter((text) => /\d\.\d/.test(text) && !text.includes(String(fraction)))).toEqual([]);
  expect(textsIn(en, fraction).filter((text) => /\d,\d/.test(text))).toEqual([]);
  expect(fr.whyNumber(0.25)).toContain("0,250");
  expect(fr.candidate(fr.states.kept, -1.5, -0.5)).toContain("−0,500");
});

test("French punctuation never begins a line", () => {
  for (const argument of [1, 2]) expect(textsIn(fr, argument).filter((text) => / [;:?!»]|« /.test(text))).toEqual([]);
});

test("a count of one has its own form", () => {
  expect([en.headsOf(1, 8), en.headsOf(4, 8)]).toEqual(["1 head of 8", "4 heads of 8"]);
  expect([fr.piecesOf(1), fr.piecesOf(2)]).toEqual(["1 morceau", "2 morceaux"]);
  expect(fr.headsOffShort(1)).toBe("1 éteinte");
});

test("changes have a sign", () => {
  expect([0.25, -1.5, 0.001].map(english.change)).toEqual(["+0.25", "−1.50", "0.00"]);
});

test("terms are explained at their first mention, the longer one of two", () => {
  const explained = (text: string, terms = en.terms) => splitTerms(text, terms).flatMap(({ text: part, explanation }) => (explanation ? [part] : []));
  expect(explained(en.tech.maskedSelf)).toEqual(["masked self-attention"]);
  expect(explained("heads and a Head, ahead of tokens")).toEqual(["heads", "tokens"]);
  expect(explained(fr.tech.maskedSelf, fr.terms)).toEqual(["auto-attention masquée"]);
  expect(splitTerms(en.lensLede, en.terms).map(({ text }) => text).join("")).toBe(en.lensLede);
});

test.each([en, fr])("every term occurs in the texts of its language, and has one explanation", (texts) => {
  const source = JSON.stringify(texts, (name, value) => (name === "terms" ? undefined : typeof value === "function" ? String(value) : value)).toLowerCase();
  const words = texts.terms.flatMap(([each]) => each).map((word) => word.toLowerCase());
  expect(new Set(words).size).toBe(words.length);
  const absent = texts.terms.filter(([each]) => !each.some((word) => source.includes(word.toLowerCase())));
  expect(absent.map(([each]) => each[0])).toEqual(["gelu", "GRU"]); // which come from the model
});
