/** An attention map as it is displayed: some rows and columns of the weights, with their tokens. */
import type { Piece } from "../api/types";
import { row, submatrix, type Matrix } from "../maths/matrix";
import { shownPositions } from "../maths/tokens";

export interface AttentionMap {
  weights: Matrix;
  /** Token texts */
  rows: string[];
  columns: string[];
  /** The position of each row in the full matrix */
  positions: number[];
}

/** Select the rows and columns to display, with or without special tokens. */
export function selectMap(weights: Matrix, rows: Piece[], columns: Piece[], withSpecials: boolean): AttentionMap {
  const [rowPositions, columnPositions] = [shownPositions(rows, withSpecials), shownPositions(columns, withSpecials)];
  return {
    weights: submatrix(weights, rowPositions, columnPositions),
    rows: rowPositions.map((i) => rows[i]?.text ?? ""),
    columns: columnPositions.map((i) => columns[i]?.text ?? ""),
    positions: rowPositions,
  };
}

const MAX_TABLE_SIDE = 48;

/** Header and rows for display: all rows of a small map, only the row at `position` of a large one */
export function mapToShortTable(map: AttentionMap, position: number): (string | number)[][] {
  const [header = [], ...rows] = mapToTable(map);
  const isSmall = Math.max(map.rows.length, map.columns.length) <= MAX_TABLE_SIDE;
  return [header, ...rows.filter((_, i) => isSmall || map.positions[i] === position)];
}

/** Header and all rows, for a file */
export function mapToTable({ weights, rows, columns }: AttentionMap): (string | number)[][] {
  return [["", ...columns], ...rows.map((name, i) => [name, ...row(weights, i)])];
}
