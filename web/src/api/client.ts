/** Requests to the server. All of them go to the page's own origin. */
import { parseSafetensors, type Tensors } from "../maths/safetensors";
import { readEvents } from "./events";
import type { Model } from "./model";
import { Problem, problemText } from "./problem";
import type {
  ExplainAsk as ExplainRequest,
  HeadEffects,
  Lens,
  ModelDescription,
  Next,
  NextAsk as NextRequest,
  Sentences,
  SentencesAsk as SentencesRequest,
  Stages,
  Tokenized,
  Trace,
  TraceAsk as TraceRequest,
  TranslateAsk as TranslateRequest,
  Translated as Translation,
} from "./types";

export type { NextRequest, TraceRequest };

const SIGNED_IN = "regard_signed_in=1"; // set beside the cookie of the session, which scripts cannot read
const MAX_ATTEMPTS = 3;

/** Whether the browser has signed in with an access token. */
export const isSignedIn = (): boolean => document.cookie.split("; ").includes(SIGNED_IN);

/** Send a request: POST if it has a body, else GET. A busy server (429) is tried again after the time it names. */
async function send(path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
  const init = { method: body === undefined ? "GET" : "POST", headers, signal, body: JSON.stringify(body) };
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(path, init);
    if (response.ok) return response;
    if (response.status !== 429 || attempt === MAX_ATTEMPTS) throw await Problem.fromResponse(response);
    const seconds = Number(response.headers.get("retry-after") ?? 1);
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    signal?.throwIfAborted();
  }
}

async function sendJson<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return (await (await send(path, body, signal)).json()) as T;
}

export const listModels = () => sendJson<{ models: Model[]; examples?: Record<string, string[]> }>("v1/models");

export const tokenize = (model: string, text: string, signal?: AbortSignal) =>
  sendJson<Tokenized>("v1/tokenize", { model, text }, signal);

/** The sentences of a text, as a translator reads them */
export const sentences = (request: SentencesRequest, signal?: AbortSignal) => sendJson<Sentences>("v1/sentences", request, signal);

export const describe = (model: string, signal?: AbortSignal) =>
  sendJson<ModelDescription>(`v1/describe?${new URLSearchParams({ model })}`, undefined, signal);

/** Each tab of the browser keeps its own traces on the server. */
const tab = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Run a model and record what happens inside; `onProgress` receives the output again and again while it grows. */
export async function createTrace(request: TraceRequest, onProgress: (text: string) => void, signal?: AbortSignal): Promise<Trace> {
  return stream<Trace>("v1/trace", { ...request, tab }, onProgress, signal);
}

export const lens = (trace: string, signal?: AbortSignal) => sendJson<Lens>(`v1/trace/${trace}/lens?k=4`, undefined, signal);

/** Lengths of the streams, of what each part adds to them, and of what each head adds */
export async function flow(trace: string, signal?: AbortSignal): Promise<Tensors> {
  return parseSafetensors(await (await send(`v1/trace/${trace}/flow`, undefined, signal)).arrayBuffer());
}

export const headEffects = (trace: string, signal?: AbortSignal) => sendJson<HeadEffects>(`v1/trace/${trace}/heads`, undefined, signal);

/** The operations of a block in order */
export const stages = (trace: string, block: string, signal?: AbortSignal) =>
  sendJson<Stages>(`v1/trace/${trace}/stages?${new URLSearchParams({ block })}`, undefined, signal);

/** Values of a block. Names may have a selection per axis: self.query.weight[0:32;:] */
export async function values(trace: string, block: string, names: string[], signal?: AbortSignal): Promise<Tensors> {
  const query = new URLSearchParams({ block });
  for (const name of names) query.append("value", name);
  return parseSafetensors(await (await send(`v1/trace/${trace}/values?${query}`, undefined, signal)).arrayBuffer());
}

export const nextTokens = (request: NextRequest, signal?: AbortSignal) => sendJson<Next>("v1/next", request, signal);

/** Translate a text; `onProgress` receives the best hypothesis so far, again and again while it grows. */
export const translate = (request: TranslateRequest, onProgress: (text: string) => void, signal?: AbortSignal) =>
  stream<Translation>("v1/translate", request, onProgress, signal);

/** A request whose answer comes as events: the output while it grows, and the complete answer */
async function stream<T>(path: string, request: object, onProgress: (text: string) => void, signal?: AbortSignal): Promise<T> {
  const response = await send(path, { ...request, stream: true }, signal);
  if (!response.body) throw new Problem(502, "The server sent an empty response.");
  for await (const event of readEvents(response.body)) {
    const data: unknown = JSON.parse(event.data);
    if (event.name === "said") onProgress((data as { text: string }).text);
    if (event.name === "done") return data as T;
    if (event.name === "failed") throw new Problem(500, problemText(data) ?? "The request failed.");
  }
  throw new Problem(502, "The connection closed before the answer was complete.");
}

/** The numbers of one query of one head */
export async function explain(request: ExplainRequest, signal?: AbortSignal): Promise<Tensors> {
  return parseSafetensors(await (await send("v1/explain", request, signal)).arrayBuffer());
}

export interface TensorRequest {
  names: string[];
  layer?: number;
  head?: number;
  dtype?: "f32" | "u8";
}

export async function fetchTensors(traceId: string, request: TensorRequest, signal?: AbortSignal): Promise<Tensors> {
  const { names, ...options } = request;
  const query = new URLSearchParams({ names: names.join(",") });
  for (const [name, value] of Object.entries(options)) query.set(name, String(value));
  const response = await send(`v1/trace/${traceId}/tensors?${query}`, undefined, signal);
  return parseSafetensors(await response.arrayBuffer());
}
