/** Numbers as they are printed: a minus that is one and not before a zero, and −∞. */
export function fixed(value: number, digits = 4): string {
  if (!Number.isFinite(value)) return String(value).replace("-Infinity", "−∞");
  const text = value.toFixed(digits);
  return text.replace("-", Number(text) === 0 ? "" : "−");
}

export function percent(p: number): string {
  return `${(100 * p).toFixed(p < 0.001 ? 3 : p < 0.1 ? 2 : 1)} %`;
}
