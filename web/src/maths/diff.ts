/** The difference of two texts, word by word. */
export interface DiffWord {
  text: string;
  /** −1: only in the first text, 1: only in the second */
  change: -1 | 0 | 1;
}

/** The longest common subsequence is kept, everything else is deleted or inserted. */
export function diffWords(first: string, second: string): DiffWord[] {
  const [a, b] = [first.split(/\s+/).filter(Boolean), second.split(/\s+/).filter(Boolean)];
  const common = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  const at = (i: number, j: number) => common[i]?.[j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) common[i]![j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  }
  const result: DiffWord[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && a[i] === b[j]) {
      result.push({ text: a[i]!, change: 0 });
      [i, j] = [i + 1, j + 1];
    } else if (i < a.length && (j >= b.length || at(i + 1, j) >= at(i, j + 1))) result.push({ text: a[i++]!, change: -1 });
    else result.push({ text: b[j++]!, change: 1 });
  }
  return result;
}
