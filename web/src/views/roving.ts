/** Arrow keys move the focus inside a group that Tab enters once. */
import type { Action } from "svelte/action";

const STEPS: Record<string, [number, number]> = {
  ArrowRight: [1, 0],
  ArrowLeft: [-1, 0],
  ArrowDown: [0, 1],
  ArrowUp: [0, -1],
};

/** `columns`: how many stand in a row; one row where there are none */
export const roving: Action<HTMLElement, number | undefined> = (node, columns) => {
  let wide = columns;

  function move(event: KeyboardEvent): void {
    const items = [...node.querySelectorAll<HTMLElement>("[data-item]")];
    const here = items.indexOf(document.activeElement as HTMLElement);
    const step = STEPS[event.key];
    if (here < 0 || (!step && event.key !== "Home" && event.key !== "End")) return;
    const [across, down] = step ?? [0, 0];
    const to = event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : here + across + down * (wide ?? 1);
    items[to]?.focus();
    event.preventDefault();
  }

  node.addEventListener("keydown", move);
  return { update: (now) => void (wide = now), destroy: () => node.removeEventListener("keydown", move) };
};
