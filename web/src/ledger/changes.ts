/** The user's changes in words. */
import type { Texts } from "../i18n/en";
import { wordText } from "../i18n/words";
import type { Run } from "../model/run";
import { wordOf } from "../model/tokens";
import type { Choice } from "../state/choice";

export function describeChanges(t: Texts, { mask, ablate, prefix, patch, donor, node }: Choice, base: Run): string[] {
  const hidden = mask.map((j) => t.isHidden(wordText(t, base.source[j] ?? wordOf(String(j)))));
  const parts = [...hidden];
  if (ablate.length === 1 && ablate[0]) parts.push(t.headIsOff(headName(t, ablate[0])));
  else if (ablate.length) parts.push(t.headsAreOff(ablate.length));
  if (prefix.length) parts.push(t.tokensForced(prefix.length));
  if (patch.length) parts.push(t.valuesReplaced(patch.length, donor));
  if (node) parts.push(t.otherHypothesis);
  return parts;
}

/** cross.1.3 → to the source 2 · head 4 */
export function headName(t: Texts, name: string): string {
  const [site = "cross", layer = "0", head = "0"] = name.split(".");
  return `${t.siteNames[site as keyof Texts["siteNames"]] ?? site} ${Number(layer) + 1} · ${t.headNumber(Number(head) + 1)}`;
}
