/** One hover everywhere: pointing at a word lights it, and the words it is aligned with, in every drawing. */
import type { Action } from "svelte/action";

/** s:3 = source token 3, t:2 = step 2 of the output, bos = the start of the output */
export type Key = string;
export const sourceKey = (j: number): Key => `s:${j}`;
export const targetKey = (t: number): Key => `t:${t}`;
/** The key of the token that is read at step t */
export const readKey = (t: number): Key => (t > 0 ? targetKey(t - 1) : "bos");

class Hover {
  /** What the pointer is at, for drawings on canvas */
  keys = $state.raw<Key[]>([]);
  /** The source token of each step, so that aligned words light up together */
  aligned: number[] = [];
  /** The element under the pointer: when it disappears, nothing is lit any more */
  from: Element | null = null;
  private readonly elements = new Map<Key, Set<Element>>();
  private lit: Element[] = [];

  /** Light these words. A single word also lights the words it is aligned with; a pair is a link and lights only itself. */
  light(keys: Key[]): void {
    this.from = null;
    for (const element of this.lit) element.classList.remove("hot");
    const wide = keys.length === 1 ? [...keys, ...this.partners(keys[0] as Key)] : keys;
    this.keys = wide;
    this.lit = wide.flatMap((key) => [...(this.elements.get(key) ?? [])]);
    for (const element of this.lit) element.classList.add("hot");
    document.body.classList.toggle("hovering", keys.length > 0);
  }

  partners(key: Key): Key[] {
    const index = Number(key.slice(2));
    if (key.startsWith("s:")) return this.aligned.flatMap((j, t) => (j === index ? [targetKey(t)] : []));
    const partner = this.aligned[index] ?? -1;
    return partner >= 0 ? [sourceKey(partner)] : [];
  }

  add(element: Element, keys: Key[]): void {
    for (const key of keys) {
      const group = this.elements.get(key) ?? new Set();
      this.elements.set(key, group.add(element));
    }
  }

  remove(element: Element, keys: Key[]): void {
    for (const key of keys) this.elements.get(key)?.delete(element);
  }
}

export const hover = new Hover();

/** The element belongs to these words: it lights up with them, and with `point` (the default) lights them. */
export const word: Action<Element, Key[] | { keys: Key[]; point: boolean }> = (element, parameter) => {
  let keys: Key[] = [];
  let point = true;
  const set = (value: typeof parameter) => {
    hover.remove(element, keys);
    ({ keys, point } = Array.isArray(value) ? { keys: value, point: true } : value);
    hover.add(element, keys);
    element.toggleAttribute("data-dim", true);
  };
  const on = (event: Event) => {
    if (!point || (event as PointerEvent).pointerType === "touch" || document.documentElement.classList.contains("zooming")) return;
    event.stopPropagation(); // what is inside goes first
    hover.light(keys);
    hover.from = element;
  };
  // Later, because state must not change while a view is torn down, and a focused element that disappears is blurred then.
  const off = () => queueMicrotask(() => hover.from === element && hover.light([]));
  set(parameter);
  for (const name of ["pointerover", "focus"]) element.addEventListener(name, on);
  for (const name of ["pointerout", "blur"]) element.addEventListener(name, off);
  return {
    update: set,
    destroy() {
      hover.remove(element, keys);
      off();
    },
  };
};
