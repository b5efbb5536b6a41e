/** The eight stops of the guided tour. Each is a state of the page, so each has an address of its own. */
import type { Description } from "../model/description";
import type { Run } from "../model/run";
import type { Choice } from "../state/choice";

export interface Stop {
  to: Partial<Choice>;
  /** What the card points at: a part of the map, or nothing */
  spot: "" | "encoder" | "cross" | "lens" | "rail";
}

/** The stops for a model: what it does not have is replaced by what it has. The map of a phone has no lens. */
export function tourStops(description: Description, run: Run, onPhone: boolean): Stop[] {
  const decoder = description.stacks.find(({ name }) => name === "decoder");
  const stack = decoder ?? description.stacks[0]!;
  const layer = stack.layers.length - 1;
  const parts = stack.layers[layer]?.parts ?? [];
  const attention = parts.find(({ name }) => name === "cross") ?? parts.find(({ kind }) => kind === "attention");
  const part = attention?.name ?? parts[0]?.name ?? "";
  const step = Math.min(2, Math.max(0, run.target.length - 1));
  const row = stack.name === "encoder" ? 0 : step;
  const col = attention?.name === "cross" ? Math.max(0, run.aligned[step] ?? 0) : 0;
  const at = { stack: stack.name, layer, part, head: 0, row, col } satisfies Partial<Choice>;
  const inside = attention ? "heads" : "arithmetic";
  const cell = attention ? "cell" : "arithmetic";
  const block = { block: `${stack.name}.${layer}`, stage: "" };
  const map = { level: "map", step } satisfies Partial<Choice>;
  return [
    { to: map, spot: "" },
    { to: map, spot: "encoder" },
    { to: map, spot: "cross" },
    { to: onPhone && run.lens ? { ...map, level: "lens" } : map, spot: "lens" },
    { to: { ...at, step, level: "block" }, spot: "" },
    { to: { ...at, ...block, step, level: inside }, spot: "" },
    { to: { ...at, ...block, step, level: cell }, spot: "" },
    { to: { ...map, rail: true }, spot: "rail" },
  ];
}
