/** What the lecture says at each step, of this query and this head. */
import type { NextToken, Site, Token } from "../api/types";
import type { Words } from "../i18n/en";
import { fixed } from "../maths/number";
import { seen } from "../maths/tokens";
import type { Worked } from "../maths/worked";

export interface Subject {
  t: Words;
  work: Worked;
  site: Site;
  rnn: boolean;
  /** Is there an encoder of its own that keys may come from? */
  encoder: boolean;
  /** Is the query a region of a picture, and not a token? */
  region: boolean;
  /** What the query's row is named after: a source token, or what is said at this step */
  token: Token;
  /** What the decoder has read last, where the query is a step of its */
  read?: Token;
  layer: number;
  position: number;
  width: number;
  likeliest?: NextToken;
}

export function textOf(step: number, { t, work, site, rnn, encoder, region, token, read, layer, position, width, likeliest }: Subject): string {
  const words = t.stepText;
  const keys = work.K.rows;
  const name = seen(token.text);
  const says: (() => string)[] = [
    () => {
      if (rnn) return words.embedRnn(name);
      if (site.name === "cross" && encoder) return words.embedCross(name, keys);
      const last = seen((read ?? token).text);
      if (layer) return words.embedAbove(last, layer);
      if (region) return words.embedRegion(last, width);
      return read ? words.embedRead(last, position, width, name) : words.embedFirst(last, position, width);
    },
    () => (rnn ? words.qkvRnn : words.qkv)(work.q.length, keys),
    () => (work.recomputed ? words.product : words.theirs(work.score)),
    () => {
      const scaled = work.score === "scaled-dot" ? words.scale(work.q.length, fixed(work.scale)) : words.noScale;
      return work.bias ? `${scaled} ${words.bias}` : scaled;
    },
    () => words.mask(work.mask.filter((may) => !may).length),
    () =>
      work.normalise === "softmax"
        ? words.softmax(fixed(work.soft.max), fixed(work.soft.sum)) + (work.share < 1 ? ` ${words.share(fixed(work.share))}` : "")
        : words.otherNormaliser(work.normalise),
    () => words.sum,
    () => {
      const end = rnn ? words.outputRnn : words.output(site.heads);
      return likeliest ? `${end} ${words.predicts(seen(likeliest.token.text), fixed(likeliest.p))}` : end;
    },
  ];
  return says[step - 1]?.() ?? "";
}
