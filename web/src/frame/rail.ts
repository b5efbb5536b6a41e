import type { Choice } from "../state/choice";

/** Whether there may be a ledger beside the view: the arithmetic needs the whole width, and so does a presentation. */
export const hasLedger = ({ present, level }: Choice): boolean => !present && level !== "cell" && level !== "arithmetic";
