/** The page's one state: the choice, and what the server says of it. */
import * as api from "../api/client";
import { Problem } from "../api/problem";
import type { Given, Model, Next, Site, SiteName, Token, Tokenized, Trace, TraceAsk } from "../api/types";
import { cut, type Picture } from "../figure/cut";
import { speech } from "../i18n/words.svelte";
import { pathTo } from "../maths/beam";
import type { Matrix } from "../maths/matrix";
import type { Tensors } from "../maths/safetensors";
import { regionName } from "../maths/tokens";
import { worked, type Worked } from "../maths/worked";
import { DEFAULTS, WRITTEN, type Choice } from "./choice";
import { Latest } from "./latest.svelte";
import { tokensOf, weightsOf, within } from "./map";
import { choiceOf, hashOf } from "./permalink";

const ORDER: SiteName[] = ["cross", "encoder", "decoder"];
const SHOWN = 12;

class Session {
  choice = $state<Choice>(structuredClone(DEFAULTS));
  models = $state.raw<Model[]>([]);
  examples = $state.raw<Record<string, string[]>>({});
  /** What stands in the box, sent or not */
  draft = $state("");
  /** The picture in the box, asked about or not; a captioner has it in the place of the draft */
  readonly held = new Latest<Picture>();
  /** The picture that was asked about */
  picture = $state.raw<Picture | null>(null);
  /** What is said so far */
  saying = $state("");
  problem = $state("");
  needsToken = $state(false);

  readonly tokenized = new Latest<Tokenized>();
  /** What was decoded, with its beam */
  readonly decoded = new Latest<Trace>();
  /** What is looked at: the best hypothesis, or a node of the beam */
  readonly shown = new Latest<Trace>();
  readonly thumbs = new Latest<Tensors>();
  readonly weights = new Latest<Matrix>();
  readonly next = new Latest<Next>();
  readonly explained = new Latest<Worked>();

  readonly model = $derived(this.models.find((model) => model.id === this.choice.model) ?? null);
  readonly writes = $derived(this.model?.task === "writer");
  readonly sees = $derived(this.model?.task === "captioner");
  /** Models that can be asked the same */
  readonly comparable = $derived(
    this.models.filter(({ id, picture }) => id !== this.choice.model && picture?.size === this.model?.picture?.size),
  );
  readonly other = $derived(this.comparable.find(({ id }) => id === this.choice.other) ?? null);
  /** Tokens of the output that were given and not written: those of a writer's prompt */
  readonly prompt = $derived(this.writes ? (this.tokenized.value?.tokens.length ?? 0) : 0);
  readonly site = $derived.by((): Site | null => {
    const sites = this.shown.value?.sites ?? [];
    return sites.find((site) => site.name === this.choice.site) ?? sites[0] ?? null;
  });
  private readonly tokens = $derived(this.shown.value && this.site ? tokensOf(this.shown.value, this.site) : null);
  readonly rows = $derived(this.tokens?.rows ?? []);
  readonly columns = $derived(this.tokens?.columns ?? []);
  /** The step may be one past the last token: what would come next */
  readonly query = $derived(
    Math.max(0, Math.min(this.site?.rows === "source" ? this.choice.place : this.choice.step, this.rows.length - 1)),
  );
  /** Is it words that look at regions of a picture? Not while another model's attention is still shown. */
  readonly looksAtPicture = $derived(
    this.sees && this.site?.name === "cross" && this.shown.value?.model === this.choice.model,
  );
  /** Can the heads of this site be switched off? */
  readonly switchable = $derived(
    this.sees || this.model?.kind === "encdec" || (this.model?.kind === "decoder" && this.site?.name === "decoder"),
  );
  readonly busy = $derived(this.decoded.busy || this.shown.busy);

  /** Read what there is and the address, and begin. */
  async open(): Promise<void> {
    try {
      const { models, examples } = await api.models();
      this.models = models.filter((model) => model.task !== "classifier");
      this.examples = examples ?? {};
      this.needsToken = false;
      this.problem = "";
    } catch (error) {
      this.fail(error);
      return;
    }
    await this.follow(location.hash);
  }

  /** Reproduce what a permalink holds. */
  async follow(hash: string): Promise<void> {
    const choice = choiceOf(hash);
    if (!this.models.some((model) => model.id === choice.model)) choice.model = this.models[0]?.id ?? "";
    if (!choice.text) choice.text = this.examples[choice.model]?.[0] ?? "";
    this.choice = choice;
    this.draft = choice.text;
    await this.run(true);
  }

  /** Another model keeps the text where it can, and none of the numbers that were about the old one. */
  async choose(model: string): Promise<void> {
    const own = Object.values(this.examples).flat().includes(this.draft);
    const { prefix, mask, ablate } = structuredClone(DEFAULTS);
    this.draft = own ? (this.examples[model]?.[0] ?? this.draft) : this.draft;
    Object.assign(this.choice, { model, text: this.draft, prefix, mask, ablate });
    const held = this.held.value;
    if (this.sees && held) {
      if (held.size !== this.model?.picture?.size) await this.hold(held.file);
      this.picture = this.held.value;
    }
    await this.run();
  }

  /** Another text: what was forced or hidden was of the old one. */
  async say(text: string): Promise<void> {
    this.draft = text;
    Object.assign(this.choice, { text, prefix: [], mask: [] });
    await this.run();
  }

  /** Take a picture into the box, cut to what this model sees. */
  async hold(file: Blob): Promise<void> {
    const size = this.model?.picture?.size;
    this.problem = "";
    if (size) await this.held.ask(() => cut(file, size), () => (this.problem = speech.words.notAPicture));
  }

  /** Say what is in the picture in the box. The first may be the one that a permalink is about and does not hold. */
  async see(): Promise<void> {
    const first = !this.picture;
    this.picture = this.held.value;
    if (!first) this.choice.prefix = [];
    await this.run(first);
  }

  /** Decode and look. A permalink's own selection is kept, else the first step of the best hypothesis is shown. */
  async run(keep = false): Promise<void> {
    const { choice } = this;
    this.problem = "";
    this.saying = "";
    if (!keep) Object.assign(choice, { step: 0, place: 0, node: "" });
    const { model, text } = choice;
    if (!model || !(this.sees ? this.picture : text.trim())) return this.clear();
    if (this.sees) this.tokenized.clear();
    else if (!(await this.tokenized.ask((signal) => api.tokenize(model, text, signal), this.fail))) return;
    const trace = await this.decoded.ask(async (signal) => {
      if (!this.writes && !this.sees && !this.whatIf()) {
        const { beam, penalty: length_penalty } = choice;
        const said = (text: string) => (this.saying = text);
        await api.translate({ model, text, beam, length_penalty }, said, signal);
      }
      return this.traced(this.asking(), signal);
    }, this.fail);
    if (!trace) return;
    this.saying = trace.hypotheses[trace.chosen]?.text ?? "";
    if (choice.node) await this.showNode(choice.node, choice.step);
    else this.show(trace);
  }

  /** There is nothing to look at. */
  private clear(): void {
    for (const answer of [this.tokenized, this.decoded, this.shown]) answer.clear();
  }

  whatIf(): boolean {
    const { prefix, mask, ablate } = this.choice;
    return prefix.length + mask.length + ablate.length > 0;
  }

  async traced(asked: TraceAsk, signal: AbortSignal): Promise<Trace> {
    const trace = await api.trace(asked, signal);
    if (!asked.pixels) return trace;
    return { ...trace, source: trace.source.map((region) => ({ ...region, text: regionName(region.text) })) };
  }

  private asking(): TraceAsk {
    const { model, beam, penalty, prefix } = this.choice;
    const usual = this.writes ? { max_len: WRITTEN } : { beam, length_penalty: penalty };
    return { model, ...this.given, ...usual, ...(prefix.length ? { prefix: [...prefix] } : {}), ...this.changes() };
  }

  /** What the model is asked about */
  get given(): Given {
    return this.sees ? { pixels: this.picture?.pixels } : { text: this.choice.text };
  }

  /** What is hidden, and what is switched off */
  private changes(): { mask_src?: number[]; ablate?: string[] } {
    const { mask, ablate } = this.choice;
    return { ...(mask.length ? { mask_src: [...mask] } : {}), ...(ablate.length ? { ablate: [...ablate] } : {}) };
  }

  private show(trace: Trace): void {
    this.shown.clear();
    this.shown.value = trace;
    const names = trace.sites.map((site) => site.name);
    const { choice } = this;
    if (!names.includes(choice.site)) choice.site = ORDER.find((name) => names.includes(name)) ?? "cross";
    const site = trace.sites.find((site) => site.name === choice.site);
    if (site) Object.assign(choice, within(site, choice));
    choice.step = Math.min(choice.step, this.lastStep);
  }

  /** One past the last token, unless the text has ended there */
  get lastStep(): number {
    const target = this.shown.value?.target ?? [];
    return target.at(-1)?.text === "</s>" ? target.length - 1 : target.length;
  }

  /** Look at a hypothesis of the beam: its own attention, and what would come next. */
  async showNode(node: string, step?: number): Promise<void> {
    const beam = this.decoded.value?.beam;
    const path = beam ? pathTo(beam, node).map((candidate) => candidate.token.id) : [];
    this.choice.node = path.length ? node : "";
    if (!path.length) {
      if (this.decoded.value) this.show(this.decoded.value);
      return;
    }
    const target = path.slice(this.prompt);
    const trace = await this.shown.ask((signal) => this.traced({ ...this.asking(), target }, signal), this.fail);
    if (!trace) return;
    this.choice.step = step ?? path.length;
    this.show(trace);
  }

  /** Make the output begin with what stands before this step and then this token; the step after it is next. */
  async force(token: Token): Promise<void> {
    const { step } = this.choice;
    const before = this.shown.value?.target.slice(0, step) ?? [];
    await this.what({ prefix: [...before, token].slice(this.prompt).map(({ id }) => id), step: step + 1 });
  }

  async toggleMask(place: number): Promise<void> {
    await this.what({ mask: toggled(this.choice.mask, place) });
  }

  async toggleHead(): Promise<void> {
    const { site, layer, head, ablate } = this.choice;
    await this.what({ ablate: toggled(ablate, `${site}.${layer}.${head}`) });
  }

  async undo(): Promise<void> {
    await this.what({ prefix: [], mask: [], ablate: [] });
  }

  /** What if? The search is another one then, and its nodes are others; step and head stay. */
  private async what(changes: Partial<Choice>): Promise<void> {
    Object.assign(this.choice, changes, { node: "" });
    await this.run(true);
  }

  select(site: SiteName, layer: number, head: number): void {
    Object.assign(this.choice, { site, layer, head });
  }

  selectRow(row: number): void {
    if (this.site?.rows === "source") this.choice.place = row;
    else this.choice.step = row;
  }

  async loadThumbs(): Promise<void> {
    const names = this.shown.value?.sites.map(({ name }) => this.thumbName(name)) ?? [];
    if (names.length) await this.look(this.thumbs, ({ id }, signal) => api.tensors(id, { names, dtype: "u8" }, signal));
    else this.thumbs.clear();
  }

  /** A thumbnail may be coarser than the map; over a picture every region has its place. */
  thumbName(site: SiteName): string {
    return this.sees && site === "cross" ? "cross.weights" : `${site}.thumb`;
  }

  async loadWeights(): Promise<void> {
    const site = this.site;
    if (!site) return this.weights.clear();
    const { layer, head } = this.choice;
    await this.look(this.weights, (trace, signal) => weightsOf(trace, site, { layer, head }, signal));
  }

  async loadNext(): Promise<void> {
    const trace = this.shown.value;
    if (!trace) return;
    const { model, step, temperature, topK, topP } = this.choice;
    const given = this.writes ? { text: "" } : this.given; // what a writer has read is all in the prefix
    const prefix = trace.target.slice(0, step).map(({ id }) => id);
    const cut = { ...(topK ? { top_k: topK } : {}), ...(topP < 1 ? { top_p: topP } : {}) };
    const asked = { model, ...given, prefix, k: SHOWN, temperature, ...cut, ...this.changes() };
    await this.next.ask((signal) => api.next(asked, signal), this.fail);
  }

  async loadExplained(): Promise<void> {
    const site = this.site;
    if (!site) return this.explained.clear();
    const { layer, head } = this.choice;
    const query = this.query;
    const named = this.sees && site.columns === "source" ? regionName : (text: string) => text;
    await this.look(this.explained, async ({ id }, signal) => {
      const found = worked(await api.explain({ trace: id, site: site.name, layer, head: Math.max(0, head), query }, signal));
      return { ...found, columns: found.columns.map(named) };
    });
  }

  /** Ask something of the trace that is shown; one that has expired is made again. */
  private async look<T>(of: Latest<T>, question: (trace: Trace, signal: AbortSignal) => Promise<T>): Promise<void> {
    const trace = this.shown.value;
    if (!trace) return;
    await of.ask((signal) => question(trace, signal), (error) => {
      if (error instanceof Problem && error.status === 404 && this.shown.value === trace) void this.run(true);
      else this.fail(error);
    });
  }

  readonly fail = (error: unknown): void => {
    if (error instanceof Problem && error.status === 401) this.needsToken = true;
    if (error instanceof TypeError) this.problem = speech.words.unreachable; // what fetch throws
    else this.problem = error instanceof Error ? error.message : String(error);
  };

  get hash(): string {
    return hashOf(this.choice);
  }
}

function toggled<T>(list: T[], item: T): T[] {
  return list.includes(item) ? list.filter((other) => other !== item) : [...list, item];
}

export const session = new Session();
