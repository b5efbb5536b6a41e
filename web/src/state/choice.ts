/** Everything the user has selected. The page is a function of it, and a permalink holds exactly these fields. */
import type { SiteName } from "../api/types";

export interface Choice {
  model: string;
  /** A second model for comparison, or "" */
  other: string;
  text: string;
  /** The target language of a translator with several; "": the first */
  to: string;
  /** The sentence of the text whose tokens and attention are shown */
  sentence: number;
  /** null: the model's own setting */
  beam: number | null;
  penalty: number | null;
  /** Token ids that the output must begin with */
  prefix: number[];
  /** Positions of the source tokens that are hidden from the model */
  mask: number[];
  /** Heads that are switched off, such as cross.1.3 */
  ablate: string[];
  site: SiteName;
  layer: number;
  /** A head, or MEAN_HEAD */
  head: number;
  /** The decoding step, which selects the query where queries are output tokens */
  step: number;
  /** The source position, which selects the query where queries are source tokens */
  place: number;
  /** A node of the beam search; "": the best hypothesis */
  node: string;
  /** How attention is drawn; "image" falls back to the matrix where there is no image */
  view: "image" | "matrix" | "links";
  /** Links with smaller weights are not drawn. */
  threshold: number;
  /** Whether special tokens are shown */
  specials: boolean;
  temperature: number;
  /** 0: all tokens */
  topK: number;
  topP: number;
  /** The step of the lecture, from 1 */
  lecture: number;
  /** Whether pruned hypotheses are drawn */
  pruned: boolean;
}

/** The value of `head` that selects the mean of the layer's heads */
export const MEAN_HEAD = -1;

/** Tokens that a language model generates after the prompt */
export const MAX_NEW_TOKENS = 40;

export const DEFAULTS: Choice = {
  model: "",
  other: "",
  text: "",
  to: "",
  sentence: 0,
  beam: null,
  penalty: null,
  prefix: [],
  mask: [],
  ablate: [],
  site: "cross",
  layer: 0,
  head: 0,
  step: 0,
  place: 0,
  node: "",
  view: "image",
  threshold: 0.1,
  specials: true,
  temperature: 1,
  topK: 0,
  topP: 1,
  lecture: 1,
  pruned: true,
};
