/** A click on something in a drawing. The same can be done with the keyboard elsewhere: in the transport or in a table. */
import type { Action } from "svelte/action";

export const click: Action<Element, (event: MouseEvent) => void> = (element, handler) => {
  let current = handler;
  const onClick = (event: Event) => current(event as MouseEvent);
  element.addEventListener("click", onClick);
  return { update: (next) => void (current = next), destroy: () => element.removeEventListener("click", onClick) };
};
