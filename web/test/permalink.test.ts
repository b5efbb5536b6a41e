import { expect, test } from "vitest";
import { DEFAULTS, STEPS_BACK, type Choice } from "../src/state/choice";
import { choiceFromHash, choiceToHash } from "../src/state/permalink";

const CHOICE: Choice = {
  model: "demo",
  other: "rnn",
  text: "l'été & #1 = 50 % <0xE2> 🙂",
  to: "fr",
  sentence: 2,
  beam: 7,
  penalty: 0.6,
  temperature: 0.7,
  topK: 5,
  topP: 0.9,
  seed: 3,
  sample: 2,
  prefix: [3, 14],
  mask: [0, 2],
  ablate: ["cross.1.3", "encoder.0.2"],
  donor: "the red witch",
  patch: ["encoder.0:2", "cross.1.3"],
  asItIs: true,
  level: "cell",
  stack: "encoder",
  layer: 1,
  part: "cross",
  head: -1,
  row: 4,
  col: 3,
  block: "decoder.1",
  stage: "cross.query",
  step: 5,
  node: "3.1",
  lens: true,
  rail: false,
  present: true,
  tour: 6,
};

test("a choice that differs from the default in every field survives the round trip", () => {
  for (const name of Object.keys(DEFAULTS) as (keyof Choice)[]) expect(CHOICE[name]).not.toEqual(DEFAULTS[name]);
  expect(choiceFromHash(`#${choiceToHash(CHOICE)}`)).toEqual(CHOICE);
});

test("the default choice has an empty hash", () => {
  expect(choiceToHash(DEFAULTS)).toBe("");
  expect(choiceFromHash("")).toEqual(DEFAULTS);
});

test("invalid values are replaced by the defaults", () => {
  const choice = choiceFromHash("#level=moon&stack=third&beam=many&penalty=&step=&prefix=1,x,2&colour=red");
  expect(choice).toEqual({ ...DEFAULTS, prefix: [1, 2] });
});

test("numbers that no view can show are replaced by the defaults", () => {
  expect(choiceFromHash("#step=-1&row=-1&col=1.5&layer=0.5&sentence=0.5&head=-2")).toEqual(DEFAULTS);
  expect(choiceFromHash("#head=-1&penalty=0.5&temperature=0.5")).toEqual({ ...DEFAULTS, head: -1, penalty: 0.5, temperature: 0.5 });
});

test("numbers that the server would refuse are replaced by the defaults", () => {
  expect(choiceFromHash("#beam=99&penalty=-1&topP=0&tour=12&sample=9")).toEqual(DEFAULTS);
});

test("a link with an explicit beam and length penalty keeps them; without them the model's own apply", () => {
  expect(choiceFromHash("#beam=4&penalty=1")).toMatchObject({ beam: 4, penalty: 1 });
  expect(choiceToHash({ ...DEFAULTS, beam: 4, penalty: 0 })).toBe("beam=4&penalty=0");
  expect(choiceFromHash("#text=x")).toMatchObject({ beam: null, penalty: null });
});

test("two choices do not share their lists", () => {
  choiceFromHash("").mask.push(1);
  expect(DEFAULTS.mask).toEqual([]);
});

test("Back undoes other views and sentences, not moved selections", () => {
  expect(STEPS_BACK).toContain("level");
  for (const name of ["step", "row", "col", "rail"] as const) expect(STEPS_BACK).not.toContain(name);
});
