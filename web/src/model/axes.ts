/** Rows and columns of attention maps: their words, hues and keys. A decoder's row is named by the token read there. */
import type { SiteName } from "../api/types";
import type { Hues } from "./hues";
import { readKey, sourceKey, targetKey, type Key } from "./hover.svelte";
import type { Run } from "./run";
import type { Word } from "./tokens";

export interface Axes {
  rows: Word[];
  columns: Word[];
  /** What is said at each row; empty where rows are source words */
  says: Word[];
  rowKey: (i: number) => Key;
  columnKey: (j: number) => Key;
}

export function axisWords(run: Run, site: SiteName): Axes {
  const ofSource = site === "encoder";
  return {
    rows: ofSource ? run.source : run.read,
    columns: site === "decoder" ? run.read : run.source,
    says: ofSource ? [] : run.target,
    rowKey: ofSource ? sourceKey : targetKey,
    columnKey: site === "decoder" ? readKey : sourceKey,
  };
}

export const rowHueOf = (hues: Hues, site: SiteName) => (site === "encoder" ? hues.source : hues.read);
export const columnHueOf = (hues: Hues, site: SiteName) => (site === "decoder" ? hues.read : hues.source);
