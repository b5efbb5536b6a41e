/** What the page has to know about a model of `/v1/models`. */
import type { Model as ModelDescription } from "./types";

type AddedLater = "decode" | "can_hide_tokens";

/** Servers of earlier versions do not send the fields that were added later. */
export type Model = Omit<ModelDescription, AddedLater> & Partial<Pick<ModelDescription, AddedLater>>;

export const isClassifier = (model: Model): boolean => model.task === "classifier";

export const isCaptioner = (model: Model): boolean => model.task === "captioner";

/** A language model, which continues a text and has no source side */
export const isGenerator = (model: Model): boolean =>
  !isClassifier(model) && !isCaptioner(model) && model.task !== "translator";

export const canHideTokens = (model: Model): boolean => model.can_hide_tokens ?? model.kind === "encdec";
