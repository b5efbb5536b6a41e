/** The name of a head, such as "Cross-attention, layer 1, head 3" */
import type { Site } from "../api/types";
import type { Texts } from "../i18n/en";
import { MEAN_HEAD } from "../state/choice";
import type { HeadIndex } from "../state/headWeights";

export function headName(t: Texts, site: Site, { layer, head }: HeadIndex): string {
  return `${t[site.name]}, ${t.layer} ${layer}, ${head === MEAN_HEAD ? t.meanOfHeads : `${t.head} ${head}`}`;
}
