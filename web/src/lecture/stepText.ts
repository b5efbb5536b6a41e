/** The explanation of each step of the lecture, for the selected query and head. */
import type { NextToken, Piece, Site } from "../api/types";
import type { Texts } from "../i18n/en";
import type { HeadComputation } from "../maths/headComputation";
import { visibleText } from "../maths/tokens";

export interface LectureSubject {
  computation: HeadComputation;
  site: Site;
  /** Whether there is a separate encoder, which keys may come from */
  hasEncoder: boolean;
  /** Whether the query is a region of an image and not a token */
  isRegion: boolean;
  /** The token of the query's row: a source token, or the token generated at this step */
  token: Piece;
  /** The last token that the decoder has read, if the query is a decoding step */
  lastRead?: Piece;
  layer: number;
  position: number;
  /** Width of the model */
  width: number;
  mostLikely?: NextToken;
}

/** The text of a step, counted from 1 */
export function stepText(step: number, t: Texts, subject: LectureSubject): string {
  const { computation, site, mostLikely } = subject;
  const texts = t.lectureText;
  const rnn = rnnTexts(t, computation);
  const steps: (() => string)[] = [
    () => embeddingText(t, subject),
    () => (rnn?.project ?? texts.project)(computation.q.length, computation.K.rows),
    () => (computation.recomputed ? texts.product : texts.serverScores(computation.score)),
    () => {
      const isScaled = computation.score === "scaled-dot";
      const text = isScaled ? texts.scale(computation.q.length, computation.scale) : texts.noScale;
      return computation.bias ? `${text} ${computation.biasKind === "gaussian" ? texts.gaussian : texts.bias}` : text;
    },
    () => {
      const text = texts.mask(computation.mask.filter((allowed) => !allowed).length);
      return site.causal ? `${texts.causal} ${text}` : text;
    },
    () => {
      if (computation.normalise !== "softmax") return texts.normalisers[computation.normalise] ?? texts.otherNormaliser(computation.normalise);
      const text = texts.softmax(computation.soft.max, computation.soft.sum);
      return computation.share < 1 ? `${text} ${texts.share(computation.share)}` : text;
    },
    () => texts.sum,
    () => {
      const text = rnn?.output ?? texts.projectOutput(site.heads);
      return mostLikely ? `${text} ${texts.predicts(visibleText(mostLikely.token.text), mostLikely.p)}` : text;
    },
  ];
  return steps[step - 1]?.() ?? "";
}

/** The texts for an RNN decoder, by where its context vector goes; null for a Transformer */
function rnnTexts(t: Texts, { context }: HeadComputation): Texts["lectureText"]["rnn"]["output"] | null {
  return context === "output" || context === "input" ? t.lectureText.rnn[context] : null;
}

/** Where the query vector comes from */
function embeddingText(t: Texts, subject: LectureSubject): string {
  const { computation, site, hasEncoder, isRegion, token, lastRead, layer, position, width } = subject;
  const texts = t.lectureText;
  const name = visibleText(token.text);
  const input = visibleText((lastRead ?? token).text);
  const rnn = rnnTexts(t, computation);
  if (rnn) return rnn.embed(name, input);
  if (site.name === "cross" && hasEncoder) return texts.embedCross(name, computation.K.rows);
  if (layer) return texts.embedAbove(input, layer);
  if (isRegion) return texts.embedRegion(input, width);
  return lastRead ? texts.embedRead(input, position, width, name) : texts.embedToken(input, position, width);
}
