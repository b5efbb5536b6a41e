/** The choice as the hash of the page's address, and back. Default values are left out. */
import { BOUNDS, DEFAULTS, LEVELS, type Choice } from "./choice";

const NAMES = Object.keys(DEFAULTS) as (keyof Choice)[];

export function choiceToHash(choice: Choice): string {
  const query = new URLSearchParams();
  for (const name of NAMES) {
    const [value, usual] = [String(choice[name]), String(DEFAULTS[name])];
    if (value !== usual) query.set(name, value);
  }
  return query.toString();
}

/** The choice in a hash. Values that are missing or invalid are the defaults. */
export function choiceFromHash(hash: string): Choice {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const choice: Record<string, unknown> = structuredClone(DEFAULTS) as never;
  for (const name of NAMES) {
    const text = query.get(name);
    const value = text === null ? null : parseValue(name, text);
    if (value !== null) choice[name] = value;
  }
  return choice as unknown as Choice;
}

const ALLOWED: Partial<Record<keyof Choice, readonly string[]>> = { level: LEVELS, stack: ["encoder", "decoder"] };
const FRACTIONS: (keyof Choice)[] = ["penalty", "temperature", "topP"];
const NAME_LISTS: (keyof Choice)[] = ["ablate", "patch"];

/** The value of a field, null if the text is invalid. The default says which type it has; null may become anything. */
function parseValue(name: keyof Choice, text: string): unknown {
  const usual = DEFAULTS[name];
  if (Array.isArray(usual)) {
    const items = text === "" ? [] : text.split(",");
    return NAME_LISTS.includes(name) ? items : items.map(Number).filter(Number.isInteger);
  }
  if (typeof usual === "boolean" || name === "rail") return text === "true";
  if (typeof usual === "string") return ALLOWED[name]?.includes(text) === false ? null : text;
  const [low, high] = BOUNDS[name] ?? [0, Infinity];
  const value = Number(text);
  const isNumber = FRACTIONS.includes(name) ? Number.isFinite(value) : Number.isInteger(value);
  return text !== "" && isNumber && value >= low && value <= high ? value : null;
}
