/** The choice as the hash of the address, and back. What is as usual is left out. */
import { DEFAULTS, type Choice } from "./choice";

const NAMES = Object.keys(DEFAULTS) as (keyof Choice)[];

export function hashOf(choice: Choice): string {
  const query = new URLSearchParams();
  for (const name of NAMES) {
    const [value, usual] = [String(choice[name]), String(DEFAULTS[name])];
    if (value !== usual) query.set(name, value);
  }
  return query.toString();
}

/** The choice that a hash holds; what cannot be understood is as usual. */
export function choiceOf(hash: string): Choice {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const found: Record<string, unknown> = {};
  for (const name of NAMES) {
    const text = query.get(name);
    const usual = DEFAULTS[name];
    found[name] = text === null ? structuredClone(usual) : (read(name, text, usual) ?? structuredClone(usual));
  }
  return found as unknown as Choice;
}

const ONE_OF: Partial<Record<keyof Choice, string[]>> = {
  site: ["encoder", "decoder", "cross"],
  view: ["picture", "matrix", "links"],
};

function read(name: keyof Choice, text: string, usual: Choice[keyof Choice]): unknown {
  if (Array.isArray(usual)) {
    const parts = text === "" ? [] : text.split(",");
    return name === "ablate" ? parts : parts.map(Number).filter(Number.isInteger);
  }
  if (typeof usual === "boolean") return text === "true";
  if (typeof usual === "number") return text !== "" && Number.isFinite(Number(text)) ? Number(text) : null;
  return ONE_OF[name]?.includes(text) === false ? null : text;
}
