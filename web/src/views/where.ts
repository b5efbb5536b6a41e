/** The name of a head, such as "Cross, layer 1, head 3" */
import type { Site } from "../api/types";
import type { Words } from "../i18n/en";
import { MEAN } from "../state/choice";
import type { Place } from "../state/map";

export function where(t: Words, site: Site, { layer, head }: Place): string {
  return `${t[site.name]}, ${t.layer} ${layer}, ${head === MEAN ? t.meanOf : `${t.head} ${head}`}`;
}
