/** The state of the page: the user's choice, and what the server has answered for it. */
import * as api from "../api/client";
import type { TraceRequest } from "../api/client";
import { canHideTokens, chooseTarget, isCaptioner, isClassifier, isGenerator, type Model } from "../api/model";
import { Problem } from "../api/problem";
import type { Given as ModelInput, Next, Site, SiteName, Token, Tokenized, Trace, Translated } from "../api/types";
import { prepareImage, type InputImage } from "../figure/inputImage";
import { language } from "../i18n/language.svelte";
import { pathTo } from "../maths/beamTree";
import { recomputeHead, type HeadComputation } from "../maths/headComputation";
import type { Matrix } from "../maths/matrix";
import type { Tensors } from "../maths/safetensors";
import { regionName } from "../maths/tokens";
import { DEFAULTS, MAX_NEW_TOKENS, type Choice } from "./choice";
import { closestHead, fetchWeights, siteTokens } from "./headWeights";
import { choiceFromHash, choiceToHash } from "./permalink";
import { Resource } from "./resource.svelte";

/** The site to show if the trace does not have the chosen one */
const SITE_PREFERENCE: SiteName[] = ["cross", "encoder", "decoder"];
/** The tag of the target language that a sentence begins with as the model reads it */
const TAG = /^>>\S+<< /;
/** Candidates in the list of next tokens */
const NEXT_TOKENS = 12;

class Session {
  choice = $state<Choice>(structuredClone(DEFAULTS));
  models = $state.raw<Model[]>([]);
  examples = $state.raw<Record<string, string[]>>({});
  /** The text in the input field, submitted or not */
  draft = $state("");
  /** The image in the input field of a captioner, submitted or not */
  readonly draftImage = new Resource<InputImage>();
  /** The image that was submitted */
  image = $state.raw<InputImage | null>(null);
  /** The output so far */
  outputText = $state("");
  /** The translation of the whole text; null for other kinds of models */
  translation = $state.raw<Translated | null>(null);
  /** The request that `translation` answers */
  private translated = "";
  errorMessage = $state("");
  needsAccessToken = $state(false);

  readonly tokenized = new Resource<Tokenized>();
  /** The trace of the search, with its beam */
  readonly decoded = new Resource<Trace>();
  /** The trace that is displayed: the best hypothesis, or a node of the beam */
  readonly shown = new Resource<Trace>();
  readonly thumbnails = new Resource<Tensors>();
  readonly weights = new Resource<Matrix>();
  readonly next = new Resource<Next>();
  readonly computation = new Resource<HeadComputation>();

  readonly model = $derived(this.models.find((model) => model.id === this.choice.model) ?? null);
  readonly isGenerator = $derived(this.model !== null && isGenerator(this.model));
  readonly isCaptioner = $derived(this.model !== null && isCaptioner(this.model));
  readonly isTranslator = $derived(this.model !== null && !this.isGenerator && !this.isCaptioner);
  readonly canHideTokens = $derived(this.model !== null && canHideTokens(this.model));
  /** The target language, if the model has several */
  readonly to = $derived(this.model === null ? "" : chooseTarget(this.model, this.choice.to));
  /** The models that take the same input as the chosen one */
  readonly comparableModels = $derived(
    this.models.filter(({ id, picture }) => id !== this.choice.model && picture?.size === this.model?.picture?.size),
  );
  readonly other = $derived(this.comparableModels.find(({ id }) => id === this.choice.other) ?? null);
  /** Tokens at the start of the output that are a language model's prompt */
  readonly promptLength = $derived(this.isGenerator ? (this.tokenized.value?.tokens.length ?? 0) : 0);
  readonly site = $derived.by((): Site | null => {
    const sites = this.shown.value?.sites ?? [];
    return sites.find((site) => site.name === this.choice.site) ?? sites[0] ?? null;
  });
  private readonly tokens = $derived(this.shown.value && this.site ? siteTokens(this.shown.value, this.site) : null);
  readonly rows = $derived(this.tokens?.rows ?? []);
  readonly columns = $derived(this.tokens?.columns ?? []);
  /** The selected row. The step may be one past the last row: the token that would come next. */
  readonly query = $derived(
    Math.max(0, Math.min(this.site?.rows === "source" ? this.choice.place : this.choice.step, this.rows.length - 1)),
  );
  /** Whether the keys are regions of the image. Not while another model's trace is still shown. */
  readonly attendsToImage = $derived(
    this.isCaptioner && this.site?.name === "cross" && this.shown.value?.model === this.choice.model,
  );
  /** Whether the heads of this site can be switched off */
  readonly canSwitchHeads = $derived(
    this.isCaptioner || this.model?.kind === "encdec" || (this.model?.kind === "decoder" && this.site?.name === "decoder"),
  );
  readonly busy = $derived(this.decoded.busy || this.shown.busy);

  /** Load the list of models, then do what the address says. */
  async start(): Promise<void> {
    try {
      const { models, examples } = await api.listModels();
      this.models = models.filter((model) => !isClassifier(model));
      this.examples = examples ?? {};
      this.needsAccessToken = false;
      this.errorMessage = "";
    } catch (error) {
      this.reportError(error);
      return;
    }
    await this.openPermalink(location.hash);
  }

  /** Reproduce the state in a permalink. */
  async openPermalink(hash: string): Promise<void> {
    const choice = choiceFromHash(hash);
    if (!this.models.some((model) => model.id === choice.model)) choice.model = this.models[0]?.id ?? "";
    if (!choice.text) choice.text = this.examples[choice.model]?.[0] ?? "";
    this.choice = choice;
    if (!this.canHideTokens) choice.mask = [];
    this.draft = choice.text;
    await this.decode(true);
  }

  /** Switch to another model. The text is kept unless it is an example; changes made to the old model are not. */
  async selectModel(id: string): Promise<void> {
    const isExample = Object.values(this.examples).flat().includes(this.draft);
    const { prefix, mask, ablate } = structuredClone(DEFAULTS);
    this.draft = isExample ? (this.examples[id]?.[0] ?? this.draft) : this.draft;
    Object.assign(this.choice, { model: id, text: this.draft, sentence: 0, prefix, mask, ablate });
    const image = this.draftImage.value;
    if (this.isCaptioner && image) {
      if (image.size !== this.model?.picture?.size) await this.loadImage(image.file);
      this.image = this.draftImage.value;
    }
    await this.decode();
  }

  /** Submit another text. Forced and hidden tokens belonged to the old one and are dropped. */
  async submitText(text: string): Promise<void> {
    this.draft = text;
    Object.assign(this.choice, { text, sentence: 0, prefix: [], mask: [] });
    await this.decode();
  }

  /** Translate to another language. Forced and hidden tokens belonged to the old one and are dropped. */
  async selectTarget(to: string): Promise<void> {
    Object.assign(this.choice, { to, prefix: [], mask: [] });
    await this.decode();
  }

  /** Look into another sentence of the text. */
  async selectSentence(sentence: number): Promise<void> {
    Object.assign(this.choice, { sentence, prefix: [], mask: [] });
    await this.decode();
  }

  /** Put an image into the input field, cropped for this model. */
  async loadImage(file: Blob): Promise<void> {
    const size = this.model?.picture?.size;
    this.errorMessage = "";
    const showError = () => (this.errorMessage = language.texts.unreadableImage);
    if (size) await this.draftImage.load(() => prepareImage(file, size), showError);
  }

  /** Submit the image in the input field. The first one may complete a permalink, whose selection is kept. */
  async submitImage(): Promise<void> {
    const isFirst = !this.image;
    this.image = this.draftImage.value;
    if (!isFirst) this.choice.prefix = [];
    await this.decode(isFirst);
  }

  /** Decode and show the result: the selected step and node if `keepSelection`, else the first step of the best hypothesis. */
  async decode(keepSelection = false): Promise<void> {
    const { choice } = this;
    this.errorMessage = "";
    this.outputText = "";
    if (!keepSelection) Object.assign(choice, { step: 0, place: 0, node: "" });
    const { model, text } = choice;
    if (!model || !(this.isCaptioner ? this.image : text.trim())) return this.clearResults();
    if (this.isCaptioner) this.tokenized.clear();
    const trace = await this.decoded.load(async (signal) => {
      await this.translate(signal);
      if (!this.isCaptioner) this.tokenized.set(await api.tokenize(model, this.sentence, signal));
      return this.requestTrace(this.traceRequest(), signal);
    }, this.reportError);
    if (!trace) return;
    const traced = trace.hypotheses[trace.chosen]?.text ?? "";
    this.outputText = this.hasChanges ? traced : (this.translation?.text ?? traced);
    if (choice.node) await this.showNode(choice.node, choice.step);
    else this.show(trace);
  }

  /** Translate the whole text, unless that has just been done. Only translators do. */
  private async translate(signal: AbortSignal): Promise<void> {
    const { model, text } = this.choice;
    const request = { model, text, ...(this.to ? { to: this.to } : {}), ...this.searchSettings };
    const key = this.isTranslator ? JSON.stringify(request) : "";
    if (key === this.translated) return;
    [this.translation, this.translated] = [null, ""];
    if (!key) return;
    this.translation = await api.translate(request, (output) => (this.outputText = output), signal);
    this.translated = key;
  }

  /** The text that is looked into: a sentence as the model reads it, or the submitted text */
  get sentence(): string {
    const sentences = this.translation?.sentences ?? [];
    return sentences[Math.min(this.choice.sentence, sentences.length - 1)]?.read ?? this.choice.text;
  }

  private clearResults(): void {
    [this.translation, this.translated] = [null, ""];
    for (const result of [this.tokenized, this.decoded, this.shown]) result.clear();
  }

  /** Whether tokens are forced or hidden, or heads switched off */
  get hasChanges(): boolean {
    const { prefix, mask, ablate } = this.choice;
    return prefix.length + mask.length + ablate.length > 0;
  }

  /** Request a trace. The regions of an image lose the mark of word beginnings that tokens have. */
  async requestTrace(request: TraceRequest, signal: AbortSignal): Promise<Trace> {
    const trace = await api.createTrace(request, signal);
    if (!request.pixels) return trace;
    return { ...trace, source: trace.source.map((region) => ({ ...region, text: regionName(region.text) })) };
  }

  private traceRequest(): TraceRequest {
    const { model, prefix } = this.choice;
    const settings = this.isGenerator ? { max_len: MAX_NEW_TOKENS } : this.searchSettings;
    const forced = prefix.length ? { prefix: [...prefix] } : {};
    return { model, ...this.modelInput, ...settings, ...forced, ...this.maskAndAblation() };
  }

  /** The search settings that the user has changed. The server uses the model's own for those that are left out. */
  get searchSettings(): { beam?: number; length_penalty?: number } {
    const { beam, penalty } = this.choice;
    return { ...(beam === null ? {} : { beam }), ...(penalty === null ? {} : { length_penalty: penalty }) };
  }

  /** The sentence or image that is looked into */
  get modelInput(): ModelInput {
    return this.isCaptioner ? { pixels: this.image?.pixels } : { text: this.sentence };
  }

  /** The same sentence or image for another model, which may have other target languages and tags */
  inputFor(other: Model): ModelInput {
    if (this.isCaptioner) return this.modelInput;
    const text = this.to ? this.sentence.replace(TAG, "") : this.sentence;
    const to = chooseTarget(other, this.to || (this.model?.languages[1] ?? ""));
    return { text, ...(to ? { to } : {}) };
  }

  private maskAndAblation(): { mask_src?: number[]; ablate?: string[] } {
    const { mask, ablate } = this.choice;
    return { ...(mask.length ? { mask_src: [...mask] } : {}), ...(ablate.length ? { ablate: [...ablate] } : {}) };
  }

  private show(trace: Trace): void {
    this.shown.set(trace);
    const names = trace.sites.map((site) => site.name);
    const { choice } = this;
    if (!names.includes(choice.site)) choice.site = SITE_PREFERENCE.find((name) => names.includes(name)) ?? "cross";
    const site = trace.sites.find((site) => site.name === choice.site);
    if (site) Object.assign(choice, closestHead(site, choice));
    choice.step = Math.min(choice.step, this.lastStep);
  }

  /** One past the last token, or the last token if it ends the text */
  get lastStep(): number {
    const target = this.shown.value?.target ?? [];
    return target.at(-1)?.text === "</s>" ? target.length - 1 : target.length;
  }

  /** Show a hypothesis of the beam: its attention, and the tokens that could come next. */
  async showNode(node: string, step?: number): Promise<void> {
    const beam = this.decoded.value?.beam;
    const path = beam ? pathTo(beam, node).map((candidate) => candidate.token.id) : [];
    this.choice.node = path.length ? node : "";
    if (!path.length) {
      if (this.decoded.value) this.show(this.decoded.value);
      return;
    }
    const request = { ...this.traceRequest(), target: path.slice(this.promptLength) };
    const trace = await this.shown.load((signal) => this.requestTrace(request, signal), this.reportError);
    if (!trace) return;
    this.choice.step = step ?? path.length;
    this.show(trace);
  }

  /** Make the output begin with the tokens before the selected step and this token, and select the step after it. */
  async forceToken(token: Token): Promise<void> {
    const { step } = this.choice;
    const before = this.shown.value?.target.slice(0, step) ?? [];
    await this.change({ prefix: [...before, token].slice(this.promptLength).map(({ id }) => id), step: step + 1 });
  }

  async toggleHidden(position: number): Promise<void> {
    await this.change({ mask: toggle(this.choice.mask, position) });
  }

  async toggleHead(): Promise<void> {
    const { site, layer, head, ablate } = this.choice;
    await this.change({ ablate: toggle(ablate, `${site}.${layer}.${head}`) });
  }

  async undoChanges(): Promise<void> {
    await this.change({ prefix: [], mask: [], ablate: [] });
  }

  /** Decode again under changed conditions. The search tree is a new one; the selected step and head are kept. */
  private async change(changes: Partial<Choice>): Promise<void> {
    Object.assign(this.choice, changes, { node: "" });
    await this.decode(true);
  }

  selectHead(site: SiteName, layer: number, head: number): void {
    Object.assign(this.choice, { site, layer, head });
  }

  selectRow(row: number): void {
    if (this.site?.rows === "source") this.choice.place = row;
    else this.choice.step = row;
  }

  async loadThumbnails(): Promise<void> {
    const names = this.shown.value?.sites.map(({ name }) => this.thumbnailName(name)) ?? [];
    if (!names.length) return this.thumbnails.clear();
    await this.loadFromTrace(this.thumbnails, ({ id }, signal) => api.fetchTensors(id, { names, dtype: "u8" }, signal));
  }

  /** The tensor to draw the thumbnails from. Over an image it is the full map, because thumbnails may be coarser. */
  thumbnailName(site: SiteName): string {
    return this.isCaptioner && site === "cross" ? "cross.weights" : `${site}.thumb`;
  }

  async loadWeights(): Promise<void> {
    const { site } = this;
    if (!site) return this.weights.clear();
    const { layer, head } = this.choice;
    await this.loadFromTrace(this.weights, (trace, signal) => fetchWeights(trace, site, { layer, head }, signal));
  }

  async loadNext(): Promise<void> {
    const trace = this.shown.value;
    if (!trace) return;
    const { model, step, temperature, topK, topP } = this.choice;
    const input = this.isGenerator ? { text: "" } : this.modelInput; // a language model's prompt is part of the target
    const prefix = trace.target.slice(0, step).map(({ id }) => id);
    const filter = { ...(topK ? { top_k: topK } : {}), ...(topP < 1 ? { top_p: topP } : {}) };
    const request = { model, ...input, prefix, k: NEXT_TOKENS, temperature, ...filter, ...this.maskAndAblation() };
    await this.next.load((signal) => api.nextTokens(request, signal), this.reportError);
  }

  async loadComputation(): Promise<void> {
    const { site, query } = this;
    if (!site) return this.computation.clear();
    const { layer } = this.choice;
    const head = Math.max(0, this.choice.head); // head 0 in the place of the mean
    const name = this.isCaptioner && site.columns === "source" ? regionName : (text: string) => text;
    await this.loadFromTrace(this.computation, async ({ id }, signal) => {
      const computation = recomputeHead(await api.explain({ trace: id, site: site.name, layer, head, query }, signal));
      return { ...computation, columns: computation.columns.map(name) };
    });
  }

  /** Load something of the trace that is shown. If the server no longer has the trace, decode again. */
  private async loadFromTrace<T>(
    resource: Resource<T>,
    fetchValue: (trace: Trace, signal: AbortSignal) => Promise<T>,
  ): Promise<void> {
    const trace = this.shown.value;
    if (!trace) return;
    await resource.load((signal) => fetchValue(trace, signal), (error) => {
      const expired = error instanceof Problem && error.status === 404 && this.shown.value === trace;
      if (expired) void this.decode(true);
      else this.reportError(error);
    });
  }

  readonly reportError = (error: unknown): void => {
    if (error instanceof Problem && error.status === 401) this.needsAccessToken = true;
    if (error instanceof TypeError) this.errorMessage = language.texts.unreachable; // fetch throws it on network errors
    else this.errorMessage = error instanceof Error ? error.message : String(error);
  };

  get hash(): string {
    return choiceToHash(this.choice);
  }
}

/** The list without the item if it is in it, else with it */
function toggle<T>(list: T[], item: T): T[] {
  return list.includes(item) ? list.filter((other) => other !== item) : [...list, item];
}

export const session = new Session();
