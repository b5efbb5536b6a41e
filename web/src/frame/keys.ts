/** The keyboard: arrows move, Enter goes in, Esc goes out, Space plays; single letters open what the buttons open. */
import { theme } from "../draw/colour.svelte";
import { player } from "../state/player.svelte";
import { session } from "../state/session.svelte";
import { togglePresent } from "./present";
import { hasLedger } from "./rail";
import { open, up } from "./zoom";

const LETTERS: Record<string, () => void> = {
  l: () => session.go({ lens: !session.choice.lens }),
  w: () => hasLedger(session.choice) && session.go({ rail: !(session.choice.rail ?? innerWidth >= 1240) }),
  t: () => session.go({ tour: session.choice.tour ? 0 : 1 }),
  p: togglePresent,
  d: theme.toggle,
};

/** Keys of a remote control: most of them send Page Up and Page Down. */
const STEP: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, PageDown: 1, PageUp: -1 };

export function onKeydown(event: KeyboardEvent): void {
  const target = event.target as Element;
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || target.closest("input, textarea, select, [data-arrows]")) return;
  const { key } = event;
  const { choice } = session;
  const letter = LETTERS[key.toLowerCase()];
  if (key === "Escape") leave();
  else if (letter) letter();
  else if (key === " " && !target.closest("button, [role=button]")) player.toggle();
  else if (key in STEP && choice.tour) session.go({ tour: Math.max(1, Math.min(8, choice.tour + (STEP[key] ?? 0))) });
  else if (key in STEP) player.step(STEP[key] ?? 0);
  else if ((key === "ArrowDown" || key === "ArrowUp") && choice.level === "map") moveFocus(key === "ArrowDown" ? 1 : -1);
  else if (key === "Enter" && !target.closest("button, a, [role=button]")) goIn();
  else return;
  event.preventDefault();
}

function leave(): void {
  if (session.choice.tour) session.go({ tour: 0 });
  else if (session.choice.level === "map" && session.choice.present) togglePresent();
  else up();
}

/** Move the focus from layer to layer. */
function moveFocus(delta: number): void {
  const blocks = [...document.querySelectorAll<SVGElement>("#stage [data-block]")];
  const current = blocks.findIndex((block) => block === document.activeElement);
  blocks[(current + delta + blocks.length) % blocks.length]?.focus();
}

/** Open what is chosen: a layer, its first attention, the chosen weight. */
function goIn(): void {
  const { level, stack, layer, head } = session.choice;
  if (level === "map") open({ level: "block" });
  else if (level === "block") {
    const parts = session.description?.stacks.find(({ name }) => name === stack)?.layers[layer]?.parts ?? [];
    const part = parts.find(({ name }) => name === "cross") ?? parts.find(({ kind }) => kind === "attention");
    if (part) open({ level: "heads", part: part.name, row: stack === "encoder" ? 0 : session.step, col: 0 });
  } else if (level === "heads" && head >= 0) open({ level: "cell" });
}
