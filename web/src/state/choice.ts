/** Everything the user has selected. The page is a function of it, and an address holds exactly these fields. */

/** How deep the page is: the whole model, a layer, the heads of an attention, one weight; or a view of its own */
export const LEVELS = ["map", "block", "heads", "cell", "arithmetic", "next", "lens", "search", "words"] as const;
export type Level = (typeof LEVELS)[number];

export interface Choice {
  model: string;
  text: string;
  /** The target language of a translator with several; "": the first */
  to: string;
  /** The sentence of the text that is looked into */
  sentence: number;
  /** null: the model's own setting */
  beam: number | null;
  penalty: number | null;
  /** Sampling of a language model; temperature 0 takes the most likely token */
  temperature: number;
  topK: number;
  topP: number;
  seed: number;
  /** Which of the samples is shown */
  sample: number;
  /** Another model, whose output is compared in the ledger, or "" */
  other: string;

  // What if
  /** Token ids that the output must begin with */
  prefix: number[];
  /** Positions of the source tokens that are hidden from the model */
  mask: number[];
  /** Heads that are switched off, such as cross.1.3 */
  ablate: string[];
  /** A second sentence, and what is taken over from its run: decoder.1, decoder.1:2 (a position), cross.1.3 (a head) */
  donor: string;
  patch: string[];
  /** Whether the drawings show the model as it is although something is changed */
  asItIs: boolean;

  // Where the page is
  level: Level;
  stack: "encoder" | "decoder";
  layer: number;
  /** A part of the layer: self, cross, feedforward … */
  part: string;
  /** A head, or MEAN_HEAD */
  head: number;
  row: number;
  col: number;
  /** A block and a stage of its arithmetic */
  block: string;
  stage: string;
  /** The step of decoding */
  step: number;
  /** A node of the search; "": the best hypothesis */
  node: string;

  // What is shown
  /** Whether the words taking shape are written along the streams */
  lens: boolean;
  /** Whether the ledger of what-ifs is open; null: where there is room. On a phone it is a tab, and open only if true. */
  rail: boolean | null;
  present: boolean;
  /** The stop of the tour, from 1; 0: no tour */
  tour: number;
}

/** The value of `head` that selects the mean of the layer's heads */
export const MEAN_HEAD = -1;
/** Tokens that a language model generates after the prompt */
export const MAX_NEW_TOKENS = 40;

/** Texts that are sampled at once */
export const SAMPLES = 4;
/** What the server accepts */
export const BOUNDS: Partial<Record<keyof Choice, [number, number]>> = { head: [MEAN_HEAD, Infinity], beam: [1, 16], penalty: [0, 5], temperature: [0, 100], topP: [0.01, 1], sample: [0, SAMPLES - 1], tour: [0, 8] };

export const DEFAULTS: Choice = {
  model: "",
  text: "",
  to: "",
  sentence: 0,
  beam: null,
  penalty: null,
  temperature: 0,
  topK: 0,
  topP: 1,
  seed: 1,
  sample: 0,
  other: "",
  prefix: [],
  mask: [],
  ablate: [],
  donor: "",
  patch: [],
  asItIs: false,
  level: "map",
  stack: "decoder",
  layer: 0,
  part: "self",
  head: 0,
  row: 0,
  col: 0,
  block: "",
  stage: "",
  step: 0,
  node: "",
  lens: false,
  rail: null,
  present: false,
  tour: 0,
};

/** Changes to what the model sees or computes; "node" and "as it is" belong to them */
export const NO_CHANGES = { prefix: [], mask: [], ablate: [], donor: "", patch: [], asItIs: false } satisfies Partial<Choice>;

/** Fields whose change is a step that the browser's Back undoes; others only replace the address. */
export const STEPS_BACK: (keyof Choice)[] = [
  ...(["model", "text", "to", "sentence", "level", "stack", "layer", "part", "block", "tour", "present"] as const),
];
