/** Roving focus: Tab enters a group once, and the arrow keys, Home and End move between its `data-item` elements. */
import type { Action } from "svelte/action";
import { ARROW_KEYS } from "./arrowKeys";

/** `itemsPerRow` is for grids; without it all items are in one row. */
export const rovingFocus: Action<HTMLElement, number | undefined> = (group, itemsPerRow) => {
  let perRow = itemsPerRow;

  function onKeydown(event: KeyboardEvent): void {
    const items = [...group.querySelectorAll<HTMLElement>("[data-item]")];
    const current = items.indexOf(document.activeElement as HTMLElement);
    const direction = ARROW_KEYS[event.key];
    if (current < 0 || (!direction && event.key !== "Home" && event.key !== "End")) return;
    const [down, across] = direction ?? [0, 0];
    const moved = current + across + down * (perRow ?? 1);
    const target = event.key === "Home" ? 0 : event.key === "End" ? items.length - 1 : moved;
    items[target]?.focus();
    event.preventDefault();
  }

  group.addEventListener("keydown", onKeydown);
  return { update: (value) => void (perRow = value), destroy: () => group.removeEventListener("keydown", onKeydown) };
};
