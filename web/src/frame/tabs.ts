/** The panels of the page on a phone, one of which is shown. They are levels of the page, and the ledger. */
import { hasSearch, type Run } from "../model/run";
import type { Choice, Level } from "../state/choice";

export const TABS = ["model", "next", "lens", "search", "whatIf"] as const;
export type Tab = (typeof TABS)[number];

const TAB_OF: Partial<Record<Level, Tab>> = { next: "next", lens: "lens", search: "search" };

export const tabOf = ({ level, rail, present }: Choice): Tab => (rail && !present ? "whatIf" : (TAB_OF[level] ?? "model"));

/** The tabs of a run, without what its model does not have */
export function tabsOf(run: Run, choice: Choice): Tab[] {
  const has: Record<Tab, boolean> = { model: true, next: run.steps.length > 0, lens: run.lens !== null, search: hasSearch(run), whatIf: !choice.present };
  return TABS.filter((tab) => has[tab] || tab === tabOf(choice));
}

/** What a tab changes. From the ledger one comes back to where in the model one was; a second touch shows the whole model. */
export function changesOf(tab: Tab, choice: Choice): Partial<Choice> {
  if (tab === "whatIf") return { rail: true };
  if (tab !== "model") return { level: tab, rail: null };
  const isInside = tabOf(choice) === "whatIf" && !TAB_OF[choice.level];
  return { rail: null, level: isInside ? choice.level : "map" };
}
