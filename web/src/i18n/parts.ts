/** The names of a model's parts: plain, and as engineers call them. */
import type { Part } from "../model/description";
import type { Texts } from "./en";

export type PartKey = "self" | "cross" | "feedforward" | "recurrence" | "stateSpace" | "window";
const KEYS: Record<Part["kind"], PartKey> = {
  ...{ attention: "self", "feed-forward": "feedforward", recurrent: "recurrence", "state-space": "stateSpace", window: "window" },
};
const partKey = (part: Part): PartKey => (part.name === "cross" ? "cross" : KEYS[part.kind]);

/** The plain name, short enough to stand over its column in two or three lines */
export const partLines = (t: Texts, part: Part): string[] => t.partLines[partKey(part)];
export const partTitle = (t: Texts, part: Part): string => t.partTitles[partKey(part)];
export const partText = (t: Texts, part: Part, isEncoder: boolean): string =>
  t.partTexts[partKey(part)](isEncoder, part.kind === "feed-forward" ? part.d_hidden : 0);

/** The technical name: masked self-attention, 4 heads of 32 */
export function partTech(t: Texts, part: Part): string {
  switch (part.kind) {
    case "attention": {
      const name = part.name === "cross" ? t.tech.cross : part.causal ? t.tech.maskedSelf : t.tech.self;
      return `${name}, ${t.headsOf(part.heads, part.d_head)}`;
    }
    case "feed-forward":
      return t.tech.feedforward(part.d_hidden, part.activation);
    case "recurrent":
      return t.tech.recurrent(part.cell, part.d_state, part.bidirectional);
    case "window":
      return t.tech.window(part.window);
    case "state-space":
      return t.tech.stateSpace(part.d_inner, part.d_state);
  }
}
