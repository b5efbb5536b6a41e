/** The parts of a model, from which the page draws it; the server describes them. */
import type { ModelDescription, PartDescription, SiteName, StackDescription } from "../api/types";

export type StackName = StackDescription["name"];
export type Description = ModelDescription;
export type Stack = StackDescription;
/** One part of a layer. Each kind has one picture and one share of the width. */
export type Part = PartDescription;
export type Attention = Extract<Part, { kind: "attention" }>;

export const stackOf = (description: Description, name: StackName): Stack | null =>
  description.stacks.find((stack) => stack.name === name) ?? null;

export const partOf = (stack: Stack | null, layer: number, name: string): Part | null =>
  stack?.layers[layer]?.parts.find((part) => part.name === name) ?? null;

/** The kind of attention that a part computes; "" if it is none */
export const siteOf = (part: Part | null): SiteName | "" => (part?.kind === "attention" ? part.site : "");

/** Whether one stack reads source and output as one text */
export const isJoint = ({ stacks }: Description): boolean => stacks.some(({ rows }) => rows === "sequence");
