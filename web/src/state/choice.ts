/** What the reader has chosen. It is all that a permalink holds, and the page is a function of it. */
import type { SiteName } from "../api/types";

export interface Choice {
  model: string;
  /** A second model to hold the first against, or none */
  other: string;
  text: string;
  beam: number;
  penalty: number;
  /** Token ids that the output must begin with */
  prefix: number[];
  /** Places of the source that the model may not see */
  mask: number[];
  /** Heads that are switched off, such as cross.1.3 */
  ablate: string[];
  site: SiteName;
  layer: number;
  /** −1: the mean of the layer's heads */
  head: number;
  /** Step of the output, and place in the source where the source is its own query */
  step: number;
  place: number;
  /** A node of the beam, or none: the best hypothesis */
  node: string;
  /** The picture where there is one, else the matrix */
  view: "picture" | "matrix" | "links";
  threshold: number;
  specials: boolean;
  temperature: number;
  /** 0: all */
  topK: number;
  topP: number;
  lecture: number;
  /** Are pruned hypotheses drawn? */
  pruned: boolean;
}

export const MEAN = -1;
/** Tokens that a language model writes */
export const WRITTEN = 40;

export const DEFAULTS: Choice = {
  model: "",
  other: "",
  text: "",
  beam: 4,
  penalty: 1,
  prefix: [],
  mask: [],
  ablate: [],
  site: "cross",
  layer: 0,
  head: 0,
  step: 0,
  place: 0,
  node: "",
  view: "picture",
  threshold: 0.1,
  specials: true,
  temperature: 1,
  topK: 0,
  topP: 1,
  lecture: 1,
  pruned: true,
};
