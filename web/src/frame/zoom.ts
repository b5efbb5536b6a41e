/** Going in and out: what was clicked grows into the page, or the page shrinks back into it. */
import { tick } from "svelte";
import { session } from "../state/session.svelte";
import type { Choice, Level } from "../state/choice";
import { loadsDone } from "../state/resource.svelte";
import { phone } from "./phone";

const DEPTH: Record<Level, number> = { map: 0, block: 1, next: 1, lens: 1, search: 1, words: 1, heads: 2, arithmetic: 2, cell: 3 };
const DURATION = 520;
/** A zoom waits this long for the numbers of the new view: drawn on the way, they would cost frames. */
const PATIENCE = 150;
const EASING = "cubic-bezier(.22,.7,.16,1)";

const isStill = (): boolean => phone.current || matchMedia("(prefers-reduced-motion: reduce)").matches;
const stage = (): HTMLElement | null => document.querySelector("#stage");

/** The thing in the drawing that a view is the inside of, marked data-zoom */
function inside(choice: Choice): Element | null {
  const { level, stack, layer, part, head } = choice;
  const names = [
    ...(level === "cell" ? ["cell"] : []),
    ...(level === "heads" || level === "cell" ? [`${stack}.${layer}.${part}.${head}`] : []),
    ...(level === "arithmetic" ? [`arithmetic.${choice.block}`, choice.block] : []),
    `${stack}.${layer}.${part}`,
    `${stack}.${layer}`,
  ];
  const wanted = ["next", "lens", "search", "words"].includes(level) ? [level] : names;
  for (const name of wanted) {
    const found = stage()?.querySelector(`[data-zoom="${CSS.escape(name)}"]`);
    if (found?.getClientRects().length) return found;
  }
  return null;
}

/** Transforms of the outer view (grown until the thing fills the stage) and of the inner one (shrunk into the thing) */
function transforms(box: DOMRect, thing: DOMRect): { outer: string; inner: string } {
  const [x, y] = [thing.left - box.left, thing.top - box.top];
  const [sx, sy] = [Math.max(0.02, thing.width / box.width), Math.max(0.02, thing.height / box.height)];
  const k = Math.min(1 / sx, 1 / sy, 12);
  const [bx, by] = [box.width / 2 - (x + thing.width / 2) * k, box.height / 2 - (y + thing.height / 2) * k];
  return { outer: `translate(${bx}px,${by}px) scale(${k})`, inner: `translate(${x}px,${y}px) scale(${sx},${sy})` };
}

function animate(goingUp: boolean, { outer, inner }: { outer: string; inner: string }): void {
  const options = { duration: DURATION, easing: EASING, fill: "both" as const };
  const [from, to] = goingUp ? [inner, outer] : [outer, inner];
  const root = document.documentElement;
  root.animate([{ transform: "none", opacity: 1 }, { transform: from, opacity: 0 }], { ...options, pseudoElement: "::view-transition-old(stage)" });
  root.animate([{ transform: to, opacity: 0 }, { opacity: 1, offset: 0.6 }, { transform: "none", opacity: 1 }], {
    ...options,
    pseudoElement: "::view-transition-new(stage)",
  });
}

let running: ViewTransition | null = null;

/** Change the view with a zoom. `update` changes the choice. */
export async function zoom(update: () => void, goingUp: boolean, from?: Element | null): Promise<void> {
  const box = stage()?.getBoundingClientRect();
  if (isStill() || !box || !document.startViewTransition) {
    update();
    await tick();
    return;
  }
  running?.skipTransition();
  let thing = (goingUp ? null : from)?.getBoundingClientRect() ?? null;
  const before = snapshot();
  const transition = document.startViewTransition(async () => {
    update();
    await tick();
    await loadsDone(PATIENCE);
    await tick();
    if (goingUp) thing = inside(before)?.getBoundingClientRect() ?? null;
  });
  running = transition;
  document.documentElement.classList.add("zooming");
  transition.finished.finally(() => {
    if (running !== transition) return;
    running = null;
    document.documentElement.classList.remove("zooming");
  });
  try {
    await transition.ready;
    const middle = new DOMRect(box.left + box.width * 0.3, box.top + box.height * 0.3, box.width * 0.4, box.height * 0.4);
    animate(goingUp, transforms(box, thing ?? middle));
  } catch {
    // the transition was skipped by the next one
  }
}

const snapshot = (): Choice => JSON.parse(JSON.stringify(session.choice)) as Choice;

/** Open a view: deeper from the thing that was clicked, or further out. On a phone it takes the place of the ledger. */
export function open(changes: Partial<Choice>, from?: Element | EventTarget | null): void {
  const level = changes.level ?? session.choice.level;
  const goingUp = DEPTH[level] < DEPTH[session.choice.level];
  const rail = phone.current && changes.level ? { rail: null } : {};
  void zoom(() => session.go({ ...rail, ...changes }), goingUp, from instanceof Element ? from : null);
}

const OUTSIDE: Record<Level, Level> = {
  ...{ map: "map", block: "map", next: "map", lens: "map", search: "map", words: "map", heads: "block", arithmetic: "block", cell: "heads" },
};

/** One level out. The embedding and the output have no layer around them. */
export function up(): void {
  const { level, block } = session.choice;
  const isLayer = /^(encoder|decoder)\.\d+$/.test(block);
  if (level !== "map") open({ level: level === "arithmetic" && !isLayer ? "map" : OUTSIDE[level] });
  else if (session.choice.present) session.go({ present: false });
}
