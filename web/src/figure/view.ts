/** A map as it is looked at: some rows and columns of the weights, with their tokens. */
import type { Token } from "../api/types";
import { part, type Matrix } from "../maths/matrix";
import { shownPlaces } from "../maths/tokens";

export interface View {
  weights: Matrix;
  rows: string[];
  columns: string[];
  /** Where the rows stand in the whole */
  places: number[];
}

export function viewOf(weights: Matrix, rows: Token[], columns: Token[], specials: boolean): View {
  const [down, across] = [shownPlaces(rows, specials), shownPlaces(columns, specials)];
  return {
    weights: part(weights, down, across),
    rows: down.map((i) => rows[i]?.text ?? ""),
    columns: across.map((i) => columns[i]?.text ?? ""),
    places: down,
  };
}

const LEGIBLE = 48;

/** Header and rows, to be read: of a large map the chosen row alone */
export function readable(view: View, query: number): (string | number)[][] {
  const [header = [], ...rows] = tableOf(view);
  const small = Math.max(view.rows.length, view.columns.length) <= LEGIBLE;
  return [header, ...rows.filter((_, i) => small || view.places[i] === query)];
}

/** Header and rows, for a file */
export function tableOf({ weights, rows, columns }: View): (string | number)[][] {
  const numbers = (i: number) => Array.from(weights.data.subarray(i * weights.columns, (i + 1) * weights.columns));
  return [["", ...columns], ...rows.map((name, i) => [name, ...numbers(i)])];
}
