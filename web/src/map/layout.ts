/** Where everything of the map is: the columns of the parts, the rows of the words, and the places beside them. */
import { type Description, type Part, type Stack, type StackName, stackOf } from "../model/description";
import { placeRows, type Rows } from "./rows";

/** One part of an open layer, or a whole layer that is folded to a slat */
export interface Column {
  stack: StackName;
  layer: number;
  part: Part | null;
  /** The index of the last part up to the right edge, counted through the whole stack */
  stage: number;
  x0: number;
  x1: number;
}

export interface Slab {
  stack: StackName;
  layer: number;
  open: boolean;
  x0: number;
  x1: number;
}

export interface StackPlace {
  name: StackName;
  /** Left edge of the labels, of the streams, and the end of the last layer */
  labels: number;
  start: number;
  end: number;
  top: number;
  bottom: number;
  rows: Rows;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface MapLayout {
  width: number;
  height: number;
  /** Scale of type and distances: 1, or more in a presentation */
  k: number;
  /** Too many rows to be drawn again for each frame: nothing in it moves or fades */
  isLarge: boolean;
  columns: Column[];
  slabs: Slab[];
  encoder: StackPlace | null;
  decoder: StackPlace | null;
  /** Where the words that the model says begin */
  outX: number;
  lens: Box;
  bars: Box;
}

export interface MapInput {
  description: Description;
  width: number;
  height: number;
  k: number;
  rows: Record<StackName, number>;
  /** The chosen row of each stack */
  chosen: Record<StackName, number>;
  /** The layer in hand of each stack, which stays open */
  inHand: Record<StackName, number>;
  labelWidth: Record<StackName, number>;
}

const SHARE: Record<Part["kind"], number> = { attention: 1, "feed-forward": 0.66, recurrent: 0.9, "state-space": 0.9, window: 0.9 };
const MIN_UNIT = 42; // pixels of a part of share 1; below, layers fold
const SLAT = 9;
const OUT_WIDTH = 196;
const HEADING = 92;
const LARGE = 48; // rows of both stacks

const unitsOf = (parts: Part[]): number => parts.reduce((sum, part) => sum + SHARE[part.kind], 0);
const gapOf = (open: boolean): number => (open ? 12 : 4);

/** The layers of each stack that are open: all, or as many around the one in hand as there is room for */
function openLayers(stacks: Stack[], inHand: Record<StackName, number>, room: number): { open: Set<string>; unit: number } {
  const open = new Set(stacks.flatMap(({ name, layers }) => layers.map((_, layer) => `${name}.${layer}`)));
  const unit = () => {
    let [units, fixed] = [0, 0];
    for (const { name, layers } of stacks)
      layers.forEach(({ parts }, layer) => {
        const isOpen = open.has(`${name}.${layer}`);
        units += isOpen ? unitsOf(parts) : 0;
        fixed += gapOf(isOpen) + (isOpen ? 0 : SLAT);
      });
    return (room - fixed) / Math.max(0.5, units);
  };
  const order = stacks
    .flatMap(({ name, layers }) => layers.map((_, layer) => ({ key: `${name}.${layer}`, far: Math.abs(layer - inHand[name]) })))
    .sort((a, b) => b.far - a.far);
  for (const { key, far } of order) if (far && unit() < MIN_UNIT) open.delete(key);
  return { open, unit: Math.max(22, unit()) };
}

/** Place the columns of a stack from x on. Returns the end of the last layer. */
function placeColumns(stack: Stack, x: number, open: Set<string>, unit: number, columns: Column[], slabs: Slab[]): number {
  let stage = 0;
  let end = x;
  stack.layers.forEach(({ parts }, layer) => {
    const isOpen = open.has(`${stack.name}.${layer}`);
    const x0 = x;
    if (isOpen) {
      for (const part of parts) {
        columns.push({ stack: stack.name, layer, part, stage: ++stage, x0: x, x1: (x += unit * SHARE[part.kind]) });
      }
    } else {
      stage += parts.length;
      columns.push({ stack: stack.name, layer, part: null, stage, x0: x, x1: (x += SLAT) });
    }
    slabs.push({ stack: stack.name, layer, open: isOpen, x0, x1: x });
    end = x;
    x += gapOf(isOpen);
  });
  return end;
}

export function layoutMap(input: MapInput): MapLayout {
  const { description, width, k, labelWidth } = input;
  const [encoder, decoder] = [stackOf(description, "encoder"), stackOf(description, "decoder")];
  const [columns, slabs]: [Column[], Slab[]] = [[], []];
  const room = width - (encoder ? labelWidth.encoder : 0) - (decoder ? labelWidth.decoder : 0) - OUT_WIDTH * k - (encoder && decoder ? 34 : 22);
  const { open, unit } = openLayers(description.stacks, input.inHand, room);
  const encoderStart = labelWidth.encoder;
  const encoderEnd = encoder ? placeColumns(encoder, encoderStart, open, unit, columns, slabs) : 0;
  const decoderStart = (encoder ? encoderEnd + 22 : 0) + labelWidth.decoder;
  const decoderEnd = decoder ? placeColumns(decoder, decoderStart, open, unit, columns, slabs) : encoderEnd;
  const both = encoder && decoder ? placeBoth(input) : placeOne(input, encoder ? "encoder" : "decoder");
  const outX = decoderEnd + 16;
  const lastCross = columns.findLast(({ part }) => part?.name === "cross");
  const lensBelow = both.encoder?.bottom ?? both.decoder?.bottom ?? 0;
  const isSingle = !(encoder && decoder);
  const lensTop = lensBelow + (isSingle ? 58 : 62) * k;
  const lensWidth = isSingle ? Math.min(width * 0.58, 620 * k) : Math.max(150, encoderEnd - 6);
  const barsX = isSingle ? lensWidth + 48 : (lastCross?.x1 ?? decoderStart) + 18;
  return {
    ...{ width, height: input.height, k, columns, slabs, outX },
    isLarge: input.rows.encoder + input.rows.decoder > LARGE,
    encoder: both.encoder && { ...both.encoder, labels: 0, start: encoderStart, end: encoderEnd },
    decoder: both.decoder && { ...both.decoder, labels: decoderStart - labelWidth.decoder, start: decoderStart, end: decoderEnd },
    lens: { x: 0, y: lensTop, width: lensWidth, height: input.height - lensTop - 8 },
    bars: { x: barsX, y: isSingle ? lensTop : HEADING * k - 10, width: width - barsX, height: isSingle ? input.height - lensTop - 8 : 190 * k },
  };
}

/** Rows that are written out; more of them are lines around these. */
const legible = (count: number): number => Math.min(count, 15);

/** The height below which the rows of long sentences would not be legible; the map then scrolls. */
export function neededHeight({ stacks }: Description, rows: Record<StackName, number>, k: number): number {
  const one = (count: number) => legible(count) * 17 * k;
  if (stacks.length > 1) return 228 * k + 94 + one(rows.encoder) + one(rows.decoder);
  return 182 * k + 44 + Math.max(90, one(Math.max(rows.encoder, rows.decoder))) + 190 * k;
}

type Vertical = Omit<StackPlace, "labels" | "start" | "end">;

/** Encoder at the top left, decoder at the bottom right: the rails of the source run over the decoder. */
function placeBoth({ height, k, rows, chosen }: MapInput): { encoder: Vertical; decoder: Vertical } {
  const top = HEADING * k;
  const bottom = height - 74 * k;
  const room = bottom - top - 62 * k - 94;
  const share = Math.max(0.36, legible(rows.encoder) / Math.max(1, legible(rows.encoder) + legible(rows.decoder)));
  const source = placeRows(rows.encoder, top + 22, room * share, chosen.encoder, 40 * k, k);
  const target = placeRows(rows.decoder, 0, room - source.height, chosen.decoder, 48 * k, k);
  const decoderTop = bottom - target.height - 50;
  const moved = { ...target, ys: target.ys.map((y) => y + decoderTop + 26) };
  return {
    encoder: { name: "encoder", top, bottom: top + source.height + 44, rows: source },
    decoder: { name: "decoder", top: decoderTop, bottom, rows: moved },
  };
}

/** One stack over the whole width; what belongs to it is below. */
function placeOne({ height, k, rows, chosen }: MapInput, name: StackName): { encoder: Vertical | null; decoder: Vertical | null } {
  const top = HEADING * k;
  const below = Math.min(250 * k, height * 0.36);
  const placed = placeRows(rows[name], top + 22, Math.max(90, height - top - below - 90 * k), chosen[name], 46 * k, k);
  const place: Vertical = { name, top, bottom: top + placed.height + 44, rows: placed };
  return { encoder: name === "encoder" ? place : null, decoder: name === "decoder" ? place : null };
}
