/** Thumbnails of attention maps, from one tensor of bytes [layers, heads, rows, columns]. */
import type { Tensor } from "./safetensors";

export function headThumbnail({ shape, data }: Tensor, layer: number, head: number): Uint8Array {
  const [, heads = 0, rows = 0, columns = 0] = shape;
  const size = rows * columns;
  return (data as Uint8Array).subarray((layer * heads + head) * size, (layer * heads + head + 1) * size);
}

/** The mean over a layer's heads. The bytes hold √w, so the mean is taken over their squares. */
export function meanThumbnail(thumbnails: Tensor, layer: number): Uint8Array {
  const count = thumbnails.shape[1] ?? 0;
  const heads = Array.from({ length: count }, (_, head) => headThumbnail(thumbnails, layer, head));
  return Uint8Array.from(heads[0] ?? [], (_, i) =>
    Math.round(Math.sqrt(heads.reduce((sum, head) => sum + (head[i] ?? 0) ** 2, 0) / count)),
  );
}
