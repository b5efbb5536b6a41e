/** A long sum of products, shortened so that it can be written on a line. */
export interface ShortSum {
  /** The positions of the products with the largest absolute values, largest first */
  terms: number[];
  /** How many products are left, and their sum */
  others: number;
  rest: number;
}

export function largestTerms(a: ArrayLike<number>, b: ArrayLike<number>, count: number): ShortSum {
  const products = Array.from(a, (x, i) => x * (b[i] ?? 0));
  const order = products.map((_, i) => i).sort((i, j) => Math.abs(products[j] ?? 0) - Math.abs(products[i] ?? 0));
  const terms = order.slice(0, count);
  const rest = order.slice(count).reduce((sum, i) => sum + (products[i] ?? 0), 0);
  return { terms, others: Math.max(0, products.length - count), rest };
}
