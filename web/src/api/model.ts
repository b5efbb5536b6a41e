/** What the page has to know about a model of `/v1/models`. */
import type { Model as ModelDescription } from "./types";

/** Servers of earlier versions send neither of the optional fields. */
export type Model = ModelDescription & {
  /** The search settings that the model was saved with */
  decode?: { beam: number; length_penalty: number } | null;
  /** Whether source tokens can be hidden: only from encoders that mask padding in attention */
  can_hide_tokens?: boolean;
};

export const isClassifier = (model: Model): boolean => model.task === "classifier";

export const isCaptioner = (model: Model): boolean => model.task === "captioner";

/** A language model, which continues a text and has no source side */
export const isGenerator = (model: Model): boolean =>
  !isClassifier(model) && !isCaptioner(model) && model.task !== "translator";

export const canHideTokens = (model: Model): boolean => model.can_hide_tokens ?? model.kind === "encdec";
