/** Attention of single heads, from the weights of a run. */
import type { SiteName, Trace } from "../api/types";
import { meanOfHeads, type Matrix } from "../maths/matrix";
import { MEAN_HEAD } from "../state/choice";
import type { Tensor } from "../maths/safetensors";
import type { Masked } from "../draw/heatmap";

/** One head of a tensor [layers, heads, rows, columns], or the mean of a layer's heads */
export function headMatrix(tensor: Tensor, layer: number, head: number): Matrix {
  if (head === MEAN_HEAD) return meanOfHeads(tensor, layer);
  const [, heads = 0, rows = 0, columns = 0] = tensor.shape;
  const size = rows * columns;
  const start = (layer * heads + head) * size;
  const part = tensor.data.subarray(start, start + size);
  // Bytes hold 255·√w, which keeps the precision of small weights.
  const data = part instanceof Float32Array ? part : Float32Array.from(part, (b) => (b / 255) ** 2);
  return { rows, columns, data };
}

/** What a kind of attention may not look at: later positions, hidden source tokens. undefined if it may look at all. */
export function maskOf(trace: Trace, name: SiteName, hidden: number[], pooled: Matrix | null = null): Masked | undefined {
  const site = trace.sites.find((each) => each.name === name);
  const ofSource = site?.columns === "source" && hidden.length > 0;
  if (!site?.causal && !ofSource) return undefined;
  // A thumbnail pools several cells; one of them is masked if all of them are.
  const [rows, columns] = site ? [trace[site.rows].length, trace[site.columns].length] : [1, 1];
  const [sr, sc] = pooled ? [rows / pooled.rows, columns / pooled.columns] : [1, 1];
  return (r, c) => (site?.causal === true && Math.floor(c * sc) > Math.ceil((r + 1) * sr) - 1) || (ofSource && hidden.includes(Math.floor(c * sc)));
}
