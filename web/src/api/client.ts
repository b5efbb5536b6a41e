/** The server's verbs. Everything is asked of the page's own origin. */
import { events } from "./events";
import { Problem, said } from "./problem";
import type {
  ExplainAsk,
  ModelList,
  Next,
  NextAsk,
  Tokenized,
  Trace,
  TraceAsk,
  TranslateAsk,
  Translated,
} from "./types";
import { parse, type Tensors } from "../maths/safetensors";

const TOKEN = "regard-token";
const RETRIES = 3;

export function keepToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
}

async function ask(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const token = sessionStorage.getItem(TOKEN);
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  const init = { method: body === undefined ? "GET" : "POST", headers, signal, body: JSON.stringify(body) };
  for (let tried = 1; ; tried++) {
    const response = await fetch(path, init);
    if (response.ok) return response;
    if (response.status !== 429 || tried === RETRIES) throw await Problem.of(response);
    await new Promise((wake) => setTimeout(wake, 1000 * Number(response.headers.get("retry-after") ?? 1)));
    signal?.throwIfAborted();
  }
}

async function json<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return (await (await ask(path, body, signal)).json()) as T;
}

export const models = () => json<ModelList>("v1/models");

export const tokenize = (model: string, text: string, signal?: AbortSignal) =>
  json<Tokenized>("v1/tokenize", { model, text }, signal);

export const trace = (body: TraceAsk, signal?: AbortSignal) => json<Trace>("v1/trace", body, signal);

export const next = (body: NextAsk, signal?: AbortSignal) => json<Next>("v1/next", body, signal);

/** The translation, and `told` what is said so far while it grows. */
export async function translate(
  body: TranslateAsk,
  told: (text: string) => void,
  signal?: AbortSignal,
): Promise<Translated> {
  const response = await ask("v1/translate", { ...body, stream: true }, signal);
  if (!response.body) throw new Problem(502, "the server sent nothing");
  for await (const event of events(response.body)) {
    const data: unknown = JSON.parse(event.data);
    if (event.name === "said") told((data as { text: string }).text);
    if (event.name === "done") return data as Translated;
    if (event.name === "failed") throw new Problem(500, said(data) ?? "the server gave up");
  }
  throw new Problem(502, "the server stopped before the end");
}

export async function explain(body: ExplainAsk, signal?: AbortSignal): Promise<Tensors> {
  return parse(await (await ask("v1/explain", body, signal)).arrayBuffer());
}

export interface TensorAsk {
  names: string[];
  layer?: number;
  head?: number;
  dtype?: "f32" | "u8";
}

export async function tensors(id: string, { names, ...rest }: TensorAsk, signal?: AbortSignal): Promise<Tensors> {
  const query = new URLSearchParams({ names: names.join(",") });
  for (const [name, value] of Object.entries(rest)) query.set(name, String(value));
  return parse(await (await ask(`v1/trace/${id}/tensors?${query}`, undefined, signal)).arrayBuffer());
}
