/** Numbers as text in the language of the page. Exported data does not go through here and keeps the decimal point. */

export interface NumberFormat {
  /** A fixed number of decimals: 0.2500, in French 0,2500 */
  decimal: (value: number, digits?: number) => string;
  /** No more decimals than needed, four at most: 0.6, in French 0,6 */
  shortest: (value: number) => string;
  /** A probability: 25%, in French 25 %. Small ones get a decimal. */
  percent: (probability: number) => string;
  /** A whole number with its thousands grouped: 12,345, in French 12 345 */
  count: (value: number) => string;
  /** Three significant digits: 2.1M, in French 2,1 M */
  compact: (value: number) => string;
  /** A probability without the zero before the point: .89; 1.0 */
  share: (probability: number) => string;
  /** Four decimals, or the order of magnitude if these would all be zero */
  small: (value: number) => string;
  /** A signed change: +0.25, −0.25 */
  change: (value: number) => string;
  /** The order of magnitude of a small number: 3e−7 */
  magnitude: (value: number) => string;
  /** The components of a vector; a semicolon separates them where the comma is the decimal sign. */
  list: (values: readonly number[], digits?: number) => string;
}

export function numberFormat(locale: string): NumberFormat {
  const formatters = new Map<string, Intl.NumberFormat>();

  function format(value: number, options: Intl.NumberFormatOptions): string {
    if (!Number.isFinite(value)) return String(value).replace("Infinity", "∞").replace("-", "−");
    const key = JSON.stringify(options);
    const formatter = formatters.get(key) ?? new Intl.NumberFormat(locale, options);
    formatters.set(key, formatter); // making a formatter takes far longer than using it
    const text = formatter.format(value);
    return text.replace("-", /[1-9]/.test(text) ? "−" : ""); // a rounded zero has no sign
  }

  const digits = (n: number) => ({ minimumFractionDigits: n, maximumFractionDigits: n });
  const decimal = (value: number, n = 4) => format(value, digits(n));
  const separator = decimal(0.5, 1).includes(",") ? "\u202f; " : ", ";
  return {
    decimal,
    shortest: (value) => format(value, { maximumFractionDigits: 4 }),
    percent: (p) => (p < 0.001 ? `<${format(0.001, { style: "percent", ...digits(1) })}` : format(p, { style: "percent", ...digits(p < 0.1 ? 1 : 0) })),
    count: (value) => format(value, { maximumFractionDigits: 0 }),
    compact: (value) => format(value, { notation: "compact", maximumSignificantDigits: 3 }),
    share: (p) => (p >= 0.995 ? decimal(1, 1) : decimal(p, 2).replace(/^0/, "")),
    small: (value) => (value && Math.abs(value) < 5e-5 ? value.toExponential(0).replace("e-", "e−") : decimal(value)),
    change: (value) => (value > 0 && !/^[0.,]*$/.test(decimal(value, 2)) ? "+" : "") + decimal(value, 2),
    magnitude: (value) => (value ? value.toExponential(0).replace("e-", "e−") : "0"),
    list: (values, n) => values.map((value) => decimal(value, n)).join(separator),
  };
}

/** The number that somebody typed, with a decimal point or comma; null if it is none. */
export function parseNumber(text: string): number | null {
  const plain = text.replace(/\s/g, "").replace(",", ".").replace("−", "-");
  return plain !== "" && Number.isFinite(Number(plain)) ? Number(plain) : null;
}
