/** The attention weights of one head of a trace, or the mean over a layer's heads. */
import { fetchTensors, type TensorRequest } from "../api/client";
import type { Piece, Site, Trace } from "../api/types";
import { meanOfHeads, toMatrix, type Matrix } from "../maths/matrix";
import { getTensor } from "../maths/safetensors";
import { MEAN_HEAD } from "./choice";

/** More numbers than this are fetched as bytes instead of floats. */
const MAX_FLOATS = 1 << 20;

export interface HeadIndex {
  layer: number;
  head: number;
}

/** This head, or the closest one that the site has */
export const closestHead = (site: Site, { layer, head }: HeadIndex): HeadIndex => ({
  layer: Math.min(layer, site.layers - 1),
  head: Math.min(head, site.heads - 1),
});

/** The tokens of the queries (rows) and keys (columns) of a site */
export function siteTokens(trace: Trace, site: Site): { rows: Piece[]; columns: Piece[] } {
  return { rows: trace[site.rows], columns: trace[site.columns] };
}

export async function fetchWeights(trace: Trace, site: Site, index: HeadIndex, signal: AbortSignal): Promise<Matrix> {
  const name = `${site.name}.weights`;
  const { rows, columns } = siteTokens(trace, site);
  const isMean = index.head === MEAN_HEAD;
  const maps = isMean ? site.layers * site.heads : 1;
  const dtype: "u8" | "f32" = rows.length * columns.length * maps > MAX_FLOATS ? "u8" : "f32";
  const request = { names: [name], dtype, ...(isMean ? {} : index) } satisfies TensorRequest;
  const tensor = getTensor(await fetchTensors(trace.id, request, signal), name);
  return isMean ? meanOfHeads(tensor, index.layer) : toMatrix(tensor);
}
