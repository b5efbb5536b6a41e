/** Where the cells and names of a matrix stand. */
import type { View } from "./view";
import { short } from "../maths/tokens";

export interface Layout {
  left: number;
  top: number;
  cell: number;
  width: number;
  height: number;
  /** Every how many-th row and column is named, and in what size */
  every: number;
  font: number;
}

const CHARACTER = 7.3;
const LARGEST = 46;
const TALLEST = 520;
const [SMALLEST, USUAL] = [9, 12];

export function layoutOf(view: View, room: number): Layout {
  const longest = (names: string[]) => CHARACTER * Math.max(2, ...names.map((name) => short(name).length));
  const left = Math.ceil(longest(view.rows)) + 10;
  const slanted = longest(view.columns) * Math.SQRT1_2;
  const top = Math.ceil(slanted) + 16;
  const right = Math.ceil(slanted * 0.75);
  const { rows, columns } = view.weights;
  const cell = Math.max(1, Math.floor(Math.min(LARGEST, (room - left - right) / columns, TALLEST / rows)));
  const width = left + cell * columns + right;
  const font = Math.max(SMALLEST, Math.min(USUAL, cell));
  return { left, top, cell, width, height: top + cell * rows + 2, every: Math.ceil(SMALLEST / cell), font };
}
