/** A short text beside the pointer. */
import type { Action } from "svelte/action";

class Tip {
  lines = $state.raw<string[]>([]);
  x = $state(0);
  y = $state(0);

  show(event: PointerEvent, lines: string[]): void {
    [this.lines, this.x, this.y] = [lines, event.clientX, event.clientY];
  }

  showBelow(element: Element, lines: string[]): void {
    const { left, bottom } = element.getBoundingClientRect();
    [this.lines, this.x, this.y] = [lines, left - 14, bottom - 12];
  }

  hide(): void {
    if (this.lines.length) this.lines = [];
  }
}

export const tip = new Tip();

/** Show these lines while the pointer is over the element; the first one is the heading. */
export const tips: Action<Element, () => string[]> = (element, lines) => {
  let current = lines;
  const move = (event: Event) => tip.show(event as PointerEvent, current());
  const out = () => tip.hide();
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerout", out);
  return { update: (next) => void (current = next), destroy: () => queueMicrotask(out) };
};
