/** The texts of the page in English. Every other language has the same names. */
import { numberFormat } from "./number";

const number = numberFormat("en");
const plural = (n: number, one: string, many: string) => `${number.count(n)} ${n === 1 ? one : many}`;

export const en = {
  number,

  // Page and header
  languageName: "English",
  pageLanguage: "Language of the page",
  tagline: "look inside your model",
  skipToInput: "Skip to the input",
  model: "Model",
  targetLanguage: "Translate to",
  compareWith: "Compare with",
  noModel: "none",
  copyLink: "Copy link",
  linkCopied: "Copied",
  modelSummary: (id: string, parameters: number, width: number, vocabulary: number) =>
    `${id}: ${number.compact(parameters)} parameters, model width ${number.count(width)}, vocabulary of ${number.count(vocabulary)} tokens`,
  labelled: (label: string, detail: string) => `${label}: ${detail}`,
  computing: "Computing",
  unreachable: "The server is not responding.",
  accessTokenRequired: "This server requires an access token.",
  accessToken: "Access token",
  signIn: "Sign in",
  signOut: "Sign out",

  // Input
  sentence: "Text",
  prompt: "Prompt",
  image: "Image",
  imageHint: "Choose a file or drop one here. The file stays in your browser; only the pixels that the model uses are sent.",
  imageCropped: (size: number) => `The model sees the central square of the image, scaled to ${size} × ${size} pixels.`,
  imageNotInLink: "A link reproduces everything selected on this page except the image.",
  unreadableImage: "The browser cannot read this file as an image.",
  examples: "Examples",
  translate: "Translate",
  continueText: "Continue",
  describeImage: "Describe the image",
  beam: "Beam size",
  penalty: "Length penalty",
  modelDefault: "default",
  modelDefaultHint: "Clear this field to use the model’s own setting.",

  // Output
  translation: "Translation",
  generatedText: "Text",
  caption: "Caption",
  waitingForText: "Type a sentence and press Enter.",
  waitingForImage: "Choose an image, then press “Describe the image”.",
  emptyOutput: "(empty)",
  shownSentence: "Sentence shown below",
  unknownWords: (words: string) => `Not seen in training: ${words}`,
  score: "score",
  logProb: "log p",
  alternatives: "Other hypotheses",
  changes: "Changes:",
  forcedTokens: (n: number) => plural(n, "token forced", "tokens forced"),
  hiddenTokens: (n: number) => plural(n, "source token hidden", "source tokens hidden"),
  headsOff: (heads: string) => `heads switched off: ${heads}`,
  undoAll: "Undo all",

  // Tokens
  tokens: "Tokens",
  tokensHintHide: "Click a source token to hide it from the model, or an output token to select its step.",
  tokensHint: "Click an output token to select its step.",
  source: "Source",
  output: "Output",
  hideToken: (token: string) => `Hide ${token} from the model`,
  stepToken: (token: string, step: number) => `Step ${step}: ${token}`,
  forced: "forced",
  merges: "How words become tokens",
  mergesHint: "Byte-pair encoding starts from characters and merges the pairs it has learned, in the order in which it learned them.",
  noMerges: "This tokenizer does not merge pairs.",
  mergesApplied: "Merges applied",
  replay: "Replay",

  // Attention
  heads: "Attention heads",
  headsHint: "Rows are layers and columns are heads. Each small map has one row per query and one column per key.",
  headsHintImage: "Rows are layers and columns are heads. Each image is bright where the head attends at the selected step.",
  encoder: "Encoder",
  decoder: "Decoder",
  cross: "Cross-attention",
  layer: "layer",
  head: "head",
  mean: "mean",
  meanOfHeads: "mean of the heads",
  headOff: "off",
  noAttention: "This model has no attention to show.",
  attention: "Attention",
  attentionOf: (head: string) => `Attention, ${head}`,
  view: "View",
  matrix: "Matrix",
  links: "Links",
  minimumWeight: "Minimum weight",
  showSpecials: "Special tokens",
  switchOff: "Switch head off",
  switchOn: "Switch head on",
  step: "Step",
  position: "Position",
  nextStep: "(next token)",
  attendsTo: (query: string, key: string, weight: number) => `${query} attends to ${key}: ${number.decimal(weight)}`,
  pointAtCell: "Point at a cell or use the arrow keys; Enter selects the row.",
  region: (row: number, column: number) => `row ${row}, column ${column}`,
  pointAtRegion: "Point at a region or use the arrow keys.",
  allSteps: "mean over all steps",
  brightnessScale: (maximum: number) => `brightness ∝ weight; maximum over all steps: ${number.decimal(maximum, 2)}`,
  colourScale: "colour intensity ∝ √weight",
  queries: "queries",
  keys: "keys",
  asTable: "Show as a table",
  linksLimited: (n: number) => `only the ${number.count(n)} strongest links are drawn`,
  compareSentence: "Two models, one sentence",
  compareImage: "Two models, one image",
  compareHint: "The selected head, or the closest one that the other model has.",

  // Next token
  next: "Next token",
  nextHint: "Click a token to force it at this step; the model continues from there.",
  temperature: "Temperature",
  topK: "Top-k (0 = all)",
  topP: "Top-p",
  after: "after",
  atStart: "at the start of the output",
  otherTokens: "other tokens",
  chosen: "chosen",
  filteredOut: "filtered",
  entropy: (bits: number) => `entropy ${number.decimal(bits, 3)} bits`,
  forceToken: (token: string, p: number) => `Force ${token}, probability ${number.percent(p)}`,

  // Beam search
  search: "Beam search",
  searchHint: "Select a hypothesis to see its attention and its possible next tokens.",
  noSearch: "No search was run.",
  showPruned: "Show pruned hypotheses",
  backToBest: "Back to the best hypothesis",
  hypothesisTree: "Tree of hypotheses",
  states: { kept: "kept", pruned: "pruned", ended: "finished" },
  candidate: (token: string, state: string, logProb: number, score: number) =>
    `${token} ${number.decimal(score, 2)}: ${state}, log p ${number.decimal(logProb, 3)}, normalised score ${number.decimal(score, 3)}`,
  node: "node",
  parent: "parent",
  state: "state",

  // Key-value cache
  cache: "Key-value cache",
  cacheHint: "The keys and values of earlier tokens are stored instead of being computed again.",
  noCache: "This model does not cache keys and values.",
  bytesPerToken: "bytes per token",
  bytesInAll: (tokens: number) => `bytes for ${plural(tokens, "token", "tokens")}`,
  withoutCache: "multiplications for keys and values without the cache",
  withCache: (ratio: number) => `with the cache: ${number.decimal(ratio, 1)} times fewer`,

  // Lecture
  lecture: "One query, step by step",
  lectureHint: "These are the numbers of the selected head and query. The page computes them again from q, K and V and compares them with the server’s.",
  lectureMean: "The mean of the heads has no q, k and v; head 0 is shown instead.",
  difference: "difference from the server: max |Δ| =",
  previous: "Previous",
  following: "Next",
  lectureSteps: ["Embedding", "q, k, v", "q · k", "÷ √d", "Mask", "Softmax", "Σ α v", "Output"],
  lectureText: {
    embedToken: (token: string, position: number, width: number) =>
      `The query comes from ${token}, at position ${position}. Its embedding and its position give one vector x of ${number.count(width)} numbers.`,
    embedRegion: (region: string, width: number) =>
      `The query comes from the image region ${region}. Its pixels and its position give one vector x of ${number.count(width)} numbers.`,
    embedRead: (token: string, position: number, width: number, output: string) =>
      `At the step that generates ${output}, the last token read is ${token}, at position ${position}. Its embedding and its position give one vector x of ${number.count(width)} numbers, from which the query is computed.`,
    embedAbove: (token: string, layer: number) =>
      `The query comes from ${token}. In layer ${layer}, its vector x is the output of the layer below.`,
    embedCross: (token: string, keys: number) =>
      `The query comes from the decoder’s vector x at the step that generates ${token}. The keys and values come from the encoder’s ${number.count(keys)} output vectors.`,
    rnn: {
      /** The context vector goes into the prediction. */
      output: {
        embed: (token: string, _read: string) =>
          `The query is the decoder’s state just before it generates ${token}. The keys are the encoder’s states.`,
        project: (width: number, keys: number) =>
          `The decoder’s state, a vector of ${number.count(width)} numbers, is the query. The encoder’s ${number.count(keys)} states serve as both keys and values.`,
        output: "The output of the attention and the decoder’s state together predict the next token.",
      },
      /** The context vector goes into the input of the RNN. */
      input: {
        embed: (token: string, read: string) =>
          `At the step that generates ${token}, the query joins two vectors: the decoder’s state before this step, and the embedding of ${read}, the last token read. The keys are the encoder’s states.`,
        project: (width: number, keys: number) =>
          `Joined, they are the query, a vector of ${number.count(width)} numbers. The encoder’s ${number.count(keys)} states serve as both keys and values.`,
        output:
          "The embedding of the last token read and the output of the attention give the input z of the RNN. Its new state alone predicts the next token.",
      },
    },
    project: (width: number, keys: number) =>
      `Three matrices compute the query q and ${plural(keys, "key with its value", "keys with their values")}, each a vector of ${number.count(width)} numbers.`,
    product: "How well does each key match the query? The dot product is large when both point in the same direction.",
    serverScores: (score: string) =>
      `The score function “${score}” has parameters of its own, which stay on the server. Its scores are shown as the server computed them.`,
    scale: (width: number, scale: number) =>
      `Dot products of vectors of ${number.count(width)} numbers grow with √${width}. Multiplying by ${number.decimal(scale)} compensates for this, so that softmax does not saturate.`,
    noScale: "This score function does not scale its scores.",
    bias: "A bias that depends on the distance is added to each score.",
    gaussian:
      "Local attention attends to a window of keys. b makes the scores logarithms of weights: it subtracts the logarithm of the window’s sum, and (j − p)² / 2σ² for the distance of key j from the centre p.",
    causal: "This attention is causal: a query cannot attend to later positions.",
    mask: (masked: number) =>
      masked ? `${plural(masked, "key is masked: its score becomes", "keys are masked: their scores become")} −∞.` : "No key is masked here.",
    softmax: (max: number, sum: number) =>
      `The maximum (${number.decimal(max)}) is subtracted first, so that exp cannot overflow. The exponentials sum to ${number.decimal(sum)}.`,
    share: (share: number) =>
      `This head also attends to other keys, which have their own map. The keys shown here receive ${number.percent(share)} of its weight.`,
    normalisers: {
      hardmax: "This head does not use softmax: the key with the largest score gets all the weight.",
      sum: "This head does not use softmax: each score is divided by the sum of all scores.",
      none: "This head does not normalise: the scores themselves are the weights.",
      exp: "The scores are logarithms of weights already, so that exp gives the weights. They may sum to less than 1.",
    } as Record<string, string>,
    otherNormaliser: (name: string) =>
      `This head normalises its scores with “${name}” instead of softmax. Its weights are shown as the server computed them.`,
    sum: "Each value is multiplied by its weight and the products are added up. This is the output of the head for this query.",
    projectOutput: (heads: number) =>
      heads === 1
        ? "The output of the head is multiplied by the output matrix and added to x. The result goes on to the rest of the layer."
        : `The outputs of the ${heads} heads are concatenated, multiplied by the output matrix and added to x. The result goes on to the rest of the layer.`,
    predicts: (token: string, p: number) => `In the end, the most likely next token is ${token}, with probability ${number.decimal(p)}.`,
  },
  formulaWords: { region: "region", layer: "layer", below: "below", masked: "masked", score: "score" },
  mask: "mask",
  token: "token",
  more: (n: number) => `and ${number.count(n)} more`,
  showAllNumbers: (n: number) => `Show all ${number.count(n)} numbers`,

  // Files
  save: "Save",
  saveAs: (format: string, subject: string) => `Save ${subject} as ${format}`,
};

export type Texts = typeof en;
