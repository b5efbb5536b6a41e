/** The weights of one head of a trace, or the mean of a layer's. */
import * as api from "../api/client";
import type { Site, Token, Trace } from "../api/types";
import { matrixOf, meanOfHeads, type Matrix } from "../maths/matrix";
import { tensor } from "../maths/safetensors";
import { MEAN } from "./choice";

/** Above this many numbers weights are fetched as bytes */
const MANY = 1 << 20;

export interface Place {
  layer: number;
  head: number;
}

/** The place itself, or the nearest that the site has */
export const within = (site: Site, { layer, head }: Place): Place => ({
  layer: Math.min(layer, site.layers - 1),
  head: Math.min(head, site.heads - 1),
});

export function tokensOf(trace: Trace, site: Site): { rows: Token[]; columns: Token[] } {
  return { rows: trace[site.rows], columns: trace[site.columns] };
}

export async function weightsOf(trace: Trace, site: Site, place: Place, signal: AbortSignal): Promise<Matrix> {
  const name = `${site.name}.weights`;
  const { rows, columns } = tokensOf(trace, site);
  const maps = place.head === MEAN ? site.layers * site.heads : 1;
  const dtype = rows.length * columns.length * maps > MANY ? "u8" : "f32";
  const part = place.head === MEAN ? {} : place;
  const found = tensor(await api.tensors(trace.id, { names: [name], ...part, dtype }, signal), name);
  return place.head === MEAN ? meanOfHeads(found, place.layer) : matrixOf(found);
}
