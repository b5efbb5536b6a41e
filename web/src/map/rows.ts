/** The heights of the words' rows on the map. Where they do not all fit, those around the chosen one get the room. */

export interface Rows {
  ys: number[];
  /** How high each row may be drawn */
  room: number[];
  /** Whether there is space for the word itself */
  labelled: boolean[];
  height: number;
}

const MIN_PITCH = 15;
const FOCUS = 5; // rows on each side of the chosen one
const FOCUS_PITCH = 18;

/** Place `count` rows into `height` pixels from `top`; `k` scales the type. */
export function placeRows(count: number, top: number, height: number, chosen: number, maxPitch: number, k = 1): Rows {
  const even = count > 1 ? height / (count - 1) : maxPitch;
  const pitch = even >= MIN_PITCH * k || count <= 2 * FOCUS + 2 ? Math.min(maxPitch, even) : 0;
  const inFocus = (i: number) => Math.abs(i - chosen) <= FOCUS;
  const near = Array.from({ length: count }, (_, i) => i).filter((i) => i && inFocus(i) && inFocus(i - 1)).length;
  const far = Math.max(0.4, (height - near * FOCUS_PITCH * k) / Math.max(1, count - 1 - near));
  const ys: number[] = [];
  for (let i = 0; i < count; i++) {
    const step = pitch || (inFocus(i) && inFocus(i - 1) ? FOCUS_PITCH * k : far);
    ys.push(i ? (ys[i - 1] ?? top) + step : top);
  }
  const room = ys.map((_, i) => pitch || (inFocus(i) ? FOCUS_PITCH * k : far));
  return { ys, room, labelled: ys.map((_, i) => !!pitch || inFocus(i)), height: (ys.at(-1) ?? top) - top };
}
