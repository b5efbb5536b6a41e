/** Rows as comma-separated values (RFC 4180). Numbers keep the decimal point in every language. */
export function toCsv(rows: (string | number)[][]): string {
  return rows.map((row) => `${row.map(quoteField).join(",")}\r\n`).join("");
}

function quoteField(value: string | number): string {
  const text = String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
