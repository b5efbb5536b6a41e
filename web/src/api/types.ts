/** What the server says, as it says it. Shapes are always [layer, head, query, key]. */

export type SiteName = "encoder" | "decoder" | "cross";

export interface Token {
  id: number;
  text: string;
  word: number;
}

export interface Model {
  id: string;
  kind: "rnn" | "encdec" | "decoder" | "encoder" | "caption";
  task: "translator" | "writer" | "classifier" | "captioner";
  languages: string[];
  parameters: number;
  d_model: number;
  vocab: number;
  sites: Partial<Record<SiteName, [number, number]>>;
  /** What a captioner sees: pixels and regions of a side */
  picture: { size: number; regions: number } | null;
}

export interface ModelList {
  models: Model[];
  examples: Record<string, string[]>;
}

export interface Merged {
  word: number;
  stages: string[][];
}

export interface Tokenized {
  tokens: Token[];
  merges: Merged[] | null;
}

export interface TranslateAsk {
  model: string;
  text: string;
  beam?: number;
  length_penalty?: number;
}

export interface Translated {
  hypotheses: { text: string; score: number; log_prob: number }[];
  ms: number;
}

/** A text, or the pixels of a picture in base64 */
export interface Given {
  text?: string;
  pixels?: string;
}

export interface TraceAsk extends Given {
  model: string;
  beam?: number;
  length_penalty?: number;
  max_len?: number;
  prefix?: number[];
  mask_src?: number[];
  ablate?: string[];
  target?: number[];
}

export interface Site {
  name: SiteName;
  rows: "source" | "target";
  columns: "source" | "read";
  layers: number;
  heads: number;
  causal: boolean;
}

export interface Hypothesis {
  text: string;
  score: number;
  log_prob: number;
  tokens: Token[];
  node: string;
}

export interface Candidate {
  node: string;
  parent: string;
  token: Token;
  log_prob: number;
  score: number;
  state: "kept" | "pruned" | "ended";
}

export interface Beam {
  k: number;
  steps: { candidates: Candidate[] }[];
}

export interface Cache {
  bytes_per_token: number;
  tokens: number;
  bytes: number;
  flops_without: number;
  flops_with: number;
}

export interface Trace {
  id: string;
  model: string;
  source: Token[];
  target: Token[];
  read: Token[];
  hypotheses: Hypothesis[];
  chosen: number;
  sites: Site[];
  beam: Beam | null;
  cache: Cache | null;
  expires: number;
}

export interface NextAsk extends Given {
  model: string;
  prefix: number[];
  k: number;
  temperature: number;
  top_k?: number;
  top_p?: number;
}

export interface NextToken {
  token: Token;
  p: number;
  log_prob: number;
  kept: boolean;
}

export interface Next {
  top: NextToken[];
  rest: number;
  entropy: number;
}

export interface ExplainAsk {
  trace: string;
  site: SiteName;
  layer: number;
  head: number;
  query: number;
}
