/** Small maps out of one tensor of bytes [layers, heads, rows, columns]. */
import type { Tensor } from "./safetensors";

export function thumbOf({ shape, data }: Tensor, layer: number, head: number): Uint8Array {
  const [, heads = 0, rows = 0, columns = 0] = shape;
  const size = rows * columns;
  return (data as Uint8Array).subarray((layer * heads + head) * size, (layer * heads + head + 1) * size);
}

/** The mean of a layer's heads. Bytes hold √w, so they are squared before and rooted after. */
export function meanLevels(thumbs: Tensor, layer: number): Uint8Array {
  const heads = thumbs.shape[1] ?? 0;
  const all = Array.from({ length: heads }, (_, head) => thumbOf(thumbs, layer, head));
  return Uint8Array.from(all[0] ?? [], (_, i) =>
    Math.round(Math.sqrt(all.reduce((sum, thumb) => sum + (thumb[i] ?? 0) ** 2, 0) / heads)),
  );
}
