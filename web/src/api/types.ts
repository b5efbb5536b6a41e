/** Names for the bodies of the server's requests and responses. `npm run types` generates them from openapi.json. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Token = Schemas["TokenInfo"];
/** A token without its id */
export type Piece = Schemas["PieceInfo"];

export type Model = Schemas["ModelInfo"];
export type ModelList = Schemas["ModelList"];

export type Merged = Schemas["MergesInfo"];
export type Tokenized = Schemas["TokenizeResponse"];

export type SentencesAsk = Schemas["SentencesRequest"];
/** A sentence of a text, as it was written and as a translator reads it */
export type Sentence = Schemas["FittedSentence"];
export type Sentences = Schemas["SentencesResponse"];

export type TranslateAsk = Schemas["TranslateRequest"];
export type Translated = Schemas["TranslateResponse"];

export type TraceAsk = Schemas["TraceRequest"];
/** A text, or the pixels of an image in base64 */
export type Given = Pick<TraceAsk, "text" | "pixels" | "to">;
export type Trace = Schemas["TraceResponse"];
/** One kind of attention: its weights have the shape [layer, head, query, key] */
export type Site = Schemas["SiteInfo"];
export type SiteName = Site["name"];
export type Hypothesis = Schemas["HypothesisInfo"];
export type Candidate = Schemas["NodeInfo"];
export type Beam = Schemas["BeamInfo"];
export type Cache = Schemas["CacheInfo"];

export type NextAsk = Schemas["NextTokensRequest"];
export type NextToken = Schemas["NextTokenInfo"];
export type Next = Schemas["NextTokensResponse"];

export type ExplainAsk = Schemas["ExplainRequest"];

export type ModelDescription = Schemas["DescriptionResponse"];
export type StackDescription = Schemas["StackDescription"];
export type PartDescription = StackDescription["layers"][number]["parts"][number];

/** The arithmetic of a block: operations in order, and the shapes of all values */
export type Stages = Schemas["StagesResponse"];
export type Stage = Schemas["StageInfo"];
export type Lens = Schemas["LensResponse"];
export type HeadEffects = Schemas["HeadEffectsResponse"];
