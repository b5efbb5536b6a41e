/** The part of a matrix that is in view, in cells; fractions of cells are allowed while zooming. */
export interface Window {
  top: number;
  left: number;
  rows: number;
  columns: number;
}

export const whole = (rows: number, columns: number): Window => ({ top: 0, left: 0, rows, columns });

/** The window moved and cut so that it lies within the matrix and shows at least two cells each way */
export function fit(window: Window, rows: number, columns: number): Window {
  const [h, w] = [Math.min(rows, Math.max(2, window.rows)), Math.min(columns, Math.max(2, window.columns))];
  return { top: Math.max(0, Math.min(rows - h, window.top)), left: Math.max(0, Math.min(columns - w, window.left)), rows: h, columns: w };
}

/** The window scaled by `factor` around a point given as fractions of it */
export function zoomAround(window: Window, factor: number, x: number, y: number, rows: number, columns: number): Window {
  const [h, w] = [window.rows * factor, window.columns * factor];
  return fit({ top: window.top + y * (window.rows - h), left: window.left + x * (window.columns - w), rows: h, columns: w }, rows, columns);
}

/** The window moved just enough to contain a cell */
export function follow(window: Window, row: number, column: number, rows: number, columns: number): Window {
  const along = (start: number, length: number, i: number) => (i < start ? i : i + 1 > start + length ? i + 1 - length : start);
  return fit({ ...window, top: along(window.top, window.rows, row), left: along(window.left, window.columns, column) }, rows, columns);
}

export const isWhole = (window: Window, rows: number, columns: number): boolean => window.rows >= rows && window.columns >= columns;
