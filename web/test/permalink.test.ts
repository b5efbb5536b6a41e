import { expect, test } from "vitest";
import { DEFAULTS, type Choice } from "../src/state/choice";
import { choiceOf, hashOf } from "../src/state/permalink";

const CHOICE: Choice = {
  model: "demo",
  other: "rnn",
  text: "l'été & #1 = 50 % <0xE2> 🙂",
  beam: 7,
  penalty: 0.6,
  prefix: [3, 14],
  mask: [0, 2],
  ablate: ["cross.1.3", "encoder.0.2"],
  site: "decoder",
  layer: 1,
  head: -1,
  step: 5,
  place: 2,
  node: "3.1",
  view: "links",
  threshold: 0.35,
  specials: false,
  temperature: 0.7,
  topK: 5,
  topP: 0.9,
  lecture: 6,
  pruned: false,
};

test("a choice that differs in everything survives the address", () => {
  for (const name of Object.keys(DEFAULTS) as (keyof Choice)[]) expect(CHOICE[name]).not.toEqual(DEFAULTS[name]);
  expect(choiceOf(`#${hashOf(CHOICE)}`)).toEqual(CHOICE);
});

test("the usual needs no address", () => {
  expect(hashOf(DEFAULTS)).toBe("");
  expect(choiceOf("")).toEqual(DEFAULTS);
});

test("what cannot be understood is as usual", () => {
  const choice = choiceOf("#site=nowhere&view=3d&beam=many&step=&prefix=1,x,2&colour=red");
  expect(choice).toEqual({ ...DEFAULTS, prefix: [1, 2] });
});

test("two choices do not share their lists", () => {
  choiceOf("").mask.push(1);
  expect(DEFAULTS.mask).toEqual([]);
});
