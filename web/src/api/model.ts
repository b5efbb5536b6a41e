/** What the page has to know about a model of `/v1/models`. */
import type { Model as ModelDescription } from "./types";

type AddedLater = "decode" | "can_hide_tokens" | "targets";

/** Servers of earlier versions do not send the fields that were added later. */
export type Model = Omit<ModelDescription, AddedLater> & Partial<Pick<ModelDescription, AddedLater>>;

export const isClassifier = (model: Model): boolean => model.task === "classifier";

export const isCaptioner = (model: Model): boolean => model.task === "captioner";

/** A language model, which continues a text and has no source side */
export const isGenerator = (model: Model): boolean =>
  !isClassifier(model) && !isCaptioner(model) && model.task !== "translator";

/** The target languages to choose from; none if the model has only one */
export const targetsOf = (model: Model): string[] => model.targets ?? [];

/** The target language to translate to: the wanted one if the model has it, else its first; "" if there is no choice */
export function chooseTarget(model: Model, wanted: string): string {
  const targets = targetsOf(model);
  return targets.includes(wanted) ? wanted : (targets[0] ?? "");
}

export const canHideTokens = (model: Model): boolean => model.can_hide_tokens ?? model.kind === "encdec";
