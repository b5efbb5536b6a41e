/** The state of the page: the user's choice, and what the server has answered for it. */
import * as api from "../api/client";
import type { NextRequest, TraceRequest } from "../api/client";
import { canHideTokens, chooseTarget, isCaptioner, isClassifier, isGenerator, type Model } from "../api/model";
import { Problem } from "../api/problem";
import type { Given as ModelInput, Sentence, SentencesAsk, SiteName, Tokenized } from "../api/types";
import { prepareImage, type InputImage } from "../figure/inputImage";
import { language } from "../i18n/language.svelte";
import { isJoint, partOf, siteOf, stackOf, type Description } from "../model/description";
import { pathTo } from "../maths/beamTree";
import { meanOfHeads, toMatrix, type Matrix } from "../maths/matrix";
import { getTensor } from "../maths/safetensors";
import { hover } from "../model/hover.svelte";
import { makeHues } from "../model/hues";
import { hasSearch, type Run } from "../model/run";
import { DEFAULTS, MAX_NEW_TOKENS, MEAN_HEAD, NO_CHANGES, SAMPLES, STEPS_BACK, type Choice } from "./choice";
import { loadRun, type LoadedRun } from "./loadRun";
import { Passage } from "./passage.svelte";
import { choiceFromHash, choiceToHash } from "./permalink";
import { loads, Resource } from "./resource.svelte";

/** The tag of the target language that a sentence begins with as the model reads it */
const TAG = /^>>\S+<< /;

/** A trace that is at least so old and that the server no longer has is made again; milliseconds */
const RENEWED_AFTER = 60_000;

type Changes = Pick<TraceRequest, "prefix" | "mask_src" | "ablate" | "patch">;

class Session {
  choice = $state<Choice>(structuredClone(DEFAULTS));
  models = $state.raw<Model[]>([]);
  examples = $state.raw<Record<string, string[]>>({});
  /** The text in the input field, submitted or not */
  draft = $state("");
  readonly draftImage = new Resource<InputImage>();
  image = $state.raw<InputImage | null>(null);
  /** The output so far, while the model is still decoding */
  partial = $state("");
  /** The submitted text of a translator, sentence by sentence */
  readonly passage = new Passage();
  errorMessage = $state("");
  /** When the trace was made; Infinity: there is none */
  private tracedAt = Infinity;
  needsAccessToken = $state(false);

  /** The weights of the chosen head, where all weights at once would be too many */
  readonly headWeights = new Resource<Matrix>();
  readonly tokenized = new Resource<Tokenized>();
  /** The run of the model as it is, and the one with the user's changes */
  readonly baseline = new Resource<LoadedRun>();
  readonly variant = new Resource<LoadedRun>();

  readonly model = $derived(this.models.find((model) => model.id === this.choice.model) ?? null);
  private readonly descriptions = new Resource<Record<string, Description>>();
  readonly description = $derived<Description | null>(this.descriptions.value?.[this.choice.model] ?? null);
  readonly joint = $derived(this.description !== null && isJoint(this.description));
  readonly isGenerator = $derived(this.model !== null && isGenerator(this.model));
  readonly isCaptioner = $derived(this.model !== null && isCaptioner(this.model));
  readonly isClassifier = $derived(this.model !== null && isClassifier(this.model));
  readonly isTranslator = $derived(this.model !== null && !this.isGenerator && !this.isCaptioner && !this.isClassifier);
  readonly canHideTokens = $derived(this.model !== null && canHideTokens(this.model));
  readonly to = $derived(this.model === null ? "" : chooseTarget(this.model, this.choice.to));
  /** Whether anything is changed: tokens forced or hidden, heads switched off, values replaced */
  readonly hasChanges = $derived(
    this.choice.prefix.length + this.choice.mask.length + this.choice.ablate.length + this.choice.patch.length > 0 || this.choice.node !== "",
  );
  /** The run that the drawings show */
  readonly loaded = $derived(this.hasChanges && !this.choice.asItIs ? this.variant.value : this.baseline.value);
  readonly run = $derived<Run | null>(this.loaded?.run ?? null);
  readonly step = $derived(lastStep(this.run, this.choice.step));
  readonly hues = $derived(this.run && makeHues(this.run, this.step));
  readonly busy = $derived(this.baseline.busy || this.variant.busy || this.passage.busy);

  /** Load the list of models, and open the link in the address. */
  async start(): Promise<void> {
    this.errorMessage = "";
    try {
      const { models, examples = {} } = await loads.track(api.listModels());
      [this.models, this.examples, this.needsAccessToken] = [models, examples, false];
    } catch (error) {
      this.reportError(error);
      return;
    }
    await this.openPermalink(location.hash);
  }

  /** Reproduce the state in a permalink. What does not change is not requested again. */
  async openPermalink(hash: string): Promise<void> {
    const choice = choiceFromHash(hash);
    if (!this.models.some((model) => model.id === choice.model)) choice.model = this.models[0]?.id ?? "";
    if (!choice.text) choice.text = this.examples[choice.model]?.[0] ?? "";
    const before = this.requestKeys();
    this.choice = choice;
    if (!this.canHideTokens) choice.mask = [];
    choice.ablate = choice.ablate.filter((name) => this.hasHead(name));
    this.draft = choice.text;
    const after = this.requestKeys();
    if (before.baseline !== after.baseline || !this.baseline.value) await this.decode();
    else if (before.variant !== after.variant) await this.decodeVariant();
  }

  private hasHead(name: string): boolean {
    const [site = "", layer = -1, head = -1] = name.split(".");
    const [layers = 0, heads = 0] = this.model?.sites[site as SiteName] ?? [];
    return Number(layer) >= 0 && Number(layer) < layers && Number(head) >= 0 && Number(head) < heads;
  }

  /** What the two runs depend on */
  private requestKeys(): { baseline: string; variant: string } {
    const { model, text, to, sentence, beam, penalty, temperature, topK, topP, seed, sample } = this.choice;
    const { prefix, mask, ablate, donor, patch, node } = this.choice;
    const baseline = [model, text, to, sentence, beam, penalty, temperature, topK, topP, seed, sample];
    return { baseline: JSON.stringify(baseline), variant: JSON.stringify([prefix, mask, ablate, donor, patch, node]) };
  }

  /** Change what is selected or shown. */
  go(changes: Partial<Choice>): void {
    if (changes.level) this.errorMessage = "";
    Object.assign(this.choice, changes);
  }

  async selectModel(id: string): Promise<void> {
    const isExample = Object.values(this.examples).flat().includes(this.draft);
    this.draft = isExample || !this.draft ? (this.examples[id]?.[0] ?? this.draft) : this.draft;
    const image = this.draftImage.value;
    this.go({ ...structuredClone(NO_CHANGES), model: id, text: this.draft, sentence: 0, node: "", step: 0, other: "", level: "map", layer: 0, part: "self", head: 0 });
    if (this.isCaptioner && image) {
      if (image.size !== this.model?.picture?.size) await this.loadImage(image.file);
      this.image = this.draftImage.value;
    }
    await this.decode();
  }

  /** Submit another text. Changes belonged to the old one and are dropped. */
  async submitText(text: string): Promise<void> {
    this.draft = text;
    this.go({ ...structuredClone(NO_CHANGES), text, sentence: 0, sample: 0, node: "", step: 0 });
    await this.decode();
  }

  async selectTarget(to: string): Promise<void> {
    this.go({ ...structuredClone(NO_CHANGES), to, node: "" });
    await this.decode();
  }

  /** Show another of the samples of a language model. */
  async selectSample(sample: number): Promise<void> {
    this.go({ ...structuredClone(NO_CHANGES), sample, node: "" });
    await this.decode();
  }

  async selectSentence(sentence: number): Promise<void> {
    this.go({ ...structuredClone(NO_CHANGES), sentence, node: "", step: 0 });
    await this.decode();
  }

  /** Put an image into the input field, cropped for this model. */
  async loadImage(file: Blob): Promise<void> {
    const size = this.model?.picture?.size;
    this.errorMessage = "";
    if (size) await this.draftImage.load(() => prepareImage(file, size), () => (this.errorMessage = language.texts.unreadableImage));
  }

  async submitImage(): Promise<void> {
    this.image = this.draftImage.value;
    await this.decode();
  }

  /** Stop what is running. Nothing of an unfinished run is kept. */
  stop(): void {
    if (this.baseline.busy) this.passage.clear();
    else this.passage.stop();
    for (const run of [this.baseline, this.variant]) if (run.busy) run.clear();
    this.partial = "";
  }

  /** Run the model as it is, and with the user's changes if there are any. Nothing of the last answer stays meanwhile. */
  async decode(): Promise<void> {
    this.errorMessage = "";
    this.partial = "";
    this.tracedAt = Infinity;
    const { model, text } = this.choice;
    this.baseline.clear();
    this.variant.clear();
    this.passage.stop();
    if (!model || !(this.isCaptioner ? this.image : text.trim())) return this.clearResults();
    const loaded = await this.baseline.load(async (signal) => {
      fitPlace(this.choice, await this.describe(model, signal));
      if (this.isTranslator) await this.passage.read(this.textRequest, this.searchSettings, signal);
      else this.passage.clear();
      if (this.shownSentence?.read === "") return null; // it has no word
      this.tokenized.clear();
      if (!this.isCaptioner) void this.tokenized.load((stop) => api.tokenize(model, this.sentence, stop), this.reportError);
      return loadRun(this.traceRequest(), (output) => (this.partial = output), signal);
    }, this.reportError);
    const isWordless = !this.baseline.busy && this.shownSentence?.read === "";
    const written = isWordless ? this.shownSentence!.source : loaded?.run.trace.written;
    if (written) this.passage.put(this.passage.nearest(this.choice.sentence), written);
    if (loaded || isWordless) void this.passage.translateOthers(this.textRequest, this.searchSettings, this.reportError);
    if (!loaded) return;
    this.tracedAt = performance.now();
    hover.aligned = loaded.run.aligned;
    this.choice.step = lastStep(loaded.run, this.choice.step);
    if (this.choice.level === "search" && !hasSearch(loaded.run)) this.choice.level = "map";
    if (this.hasChanges) await this.decodeVariant();
  }

  async decodeVariant(): Promise<void> {
    this.errorMessage = "";
    if (!this.hasChanges) return this.variant.clear();
    this.variant.value = null;
    const base = this.baseline.value?.run.trace;
    const target = this.nodeTarget();
    const request = { ...this.traceRequest(), ...this.changesRequest(), ...(base ? { baseline: base.id } : {}), ...(target ? { target } : {}) };
    const loaded = await this.variant.load((signal) => loadRun(request, () => undefined, signal), this.reportError);
    if (loaded) hover.aligned = loaded.run.aligned;
  }

  /** The ids on the way to the chosen node of the search; null for the best hypothesis */
  private nodeTarget(): number[] | null {
    const trace = this.baseline.value?.run.trace;
    const path = trace && this.choice.node ? pathTo(trace.beam, this.choice.node).map(({ token }) => token.id) : [];
    return path.length ? path.slice(this.isGenerator ? (trace?.n_prompt ?? 0) : 0) : null;
  }

  /** Change the model or its input, and run it again. */
  async change(changes: Partial<Choice>): Promise<void> {
    this.go({ asItIs: false, ...changes });
    await this.decodeVariant();
  }

  undoChanges = (): Promise<void> => this.change({ ...structuredClone(NO_CHANGES), node: "" });
  toggleHidden = (position: number): Promise<void> => this.change({ mask: toggle(this.choice.mask, position) });
  toggleHead = (name: string): Promise<void> => this.change({ ablate: toggle(this.choice.ablate, name) });

  private async describe(model: string, signal: AbortSignal): Promise<Description> {
    const known = this.descriptions.value ?? {};
    const description = known[model] ?? (await api.describe(model, signal));
    if (!known[model]) this.descriptions.set({ ...known, [model]: description });
    return description;
  }

  /** Output tokens that were given: the prompt and the forced tokens */
  get givenTokens(): number {
    return this.run?.trace.n_prompt ?? 0;
  }

  /** The whole text, for requests that are about its sentences */
  private get textRequest(): SentencesAsk {
    return { model: this.choice.model, text: this.choice.text, ...(this.to ? { to: this.to } : {}) };
  }

  /** The sentence of a translator's text that is looked into */
  get shownSentence(): Sentence | undefined {
    return this.passage.sentences[this.passage.nearest(this.choice.sentence)];
  }

  /** The text that is looked into: a sentence as the model reads it, or the submitted text */
  get sentence(): string {
    return this.shownSentence?.read ?? this.choice.text;
  }

  private clearResults(): void {
    for (const result of [this.passage, this.tokenized, this.baseline, this.variant]) result.clear();
  }

  private traceRequest(): TraceRequest {
    const settings = this.isGenerator ? { max_len: MAX_NEW_TOKENS, ...this.sampling } : this.searchSettings;
    const source = this.shownSentence ? { source: this.shownSentence.source } : {};
    return { model: this.choice.model, ...this.modelInput, ...source, ...settings };
  }

  /** The request for the next token at a step of the baseline, with the user's changes; null for models that generate nothing */
  nextRequest(base: Run, step: number): NextRequest | null {
    if (base.trace.predicts !== "target" || !this.hasChanges) return null;
    const { prefix: _, ...changes } = this.changesRequest();
    const input = this.isGenerator ? { text: "" } : this.modelInput; // a language model's prompt is part of the target
    return { model: this.choice.model, ...input, k: 10, prefix: base.trace.target.slice(0, step).map(({ id }) => id), ...changes };
  }

  private changesRequest(): Changes {
    const { prefix, mask, ablate, donor, patch } = this.choice;
    return {
      ...(patch.length ? { patch: { text: donor, sites: patch.map(parsePatch) } } : {}),
      ...(prefix.length ? { prefix: [...prefix] } : {}),
      ...(mask.length ? { mask_src: [...mask] } : {}),
      ...(ablate.length ? { ablate: [...ablate] } : {}),
    };
  }

  /** How a language model draws its text; nothing at temperature 0 */
  private get sampling(): Partial<TraceRequest> {
    const { temperature, topK, topP, seed, sample } = this.choice;
    return temperature ? { samples: SAMPLES, temperature, top_k: topK, top_p: topP, seed, hypothesis: sample } : {};
  }

  /** The search settings that the user has changed. The server uses the model's own for those that are left out. */
  get searchSettings(): { beam?: number; length_penalty?: number } {
    const { beam, penalty } = this.choice;
    return { ...(beam === null ? {} : { beam }), ...(penalty === null ? {} : { length_penalty: penalty }) };
  }

  /** The models that take the same input as the chosen one */
  get comparable(): Model[] {
    const kind = (model: Model) => (isCaptioner(model) ? `image ${model.picture?.size}` : model.task);
    return this.models.filter((other) => this.model && other.id !== this.model.id && kind(other) === kind(this.model));
  }

  /** The same sentence or image for another model, which may have other target languages and tags */
  inputFor(other: Model): ModelInput {
    if (this.isCaptioner) return this.modelInput;
    const text = this.to ? this.sentence.replace(TAG, "") : this.sentence;
    const to = chooseTarget(other, this.to || (this.model?.languages[1] ?? ""));
    return { text, ...(to ? { to } : {}) };
  }

  get modelInput(): ModelInput {
    return this.isCaptioner ? { pixels: this.image?.pixels } : { text: this.sentence };
  }

  loadHeadWeights(run: Run, site: SiteName, layer: number, head: number): void {
    const name = `${site}.weights`;
    const { id } = run.trace;
    const one = head === MEAN_HEAD ? {} : { head };
    void this.headWeights.load(async (signal) => {
      const tensor = getTensor(await api.fetchTensors(id, { names: [name], dtype: "u8", layer, ...one }, signal), name);
      return head === MEAN_HEAD ? meanOfHeads(tensor, 0) : toMatrix(tensor);
    }, this.reportError);
  }

  readonly reportError = (error: unknown): void => {
    if (error instanceof Problem && error.status === 404 && performance.now() - this.tracedAt > RENEWED_AFTER) return void this.decode();
    if (error instanceof Problem && error.status === 401) this.needsAccessToken = true;
    if (error instanceof TypeError) this.errorMessage = language.texts.unreachable; // fetch throws it on network errors
    else this.errorMessage = error instanceof Error ? error.message : String(error);
  };

  get hash(): string {
    return choiceToHash(this.choice);
  }

  /** What Back undoes: another view, sentence or model. Moving a selection is no step of its own. */
  get place(): string {
    return JSON.stringify(STEPS_BACK.map((name) => this.choice[name]));
  }
}

/** A step of the run, at most the given one */
const lastStep = (run: Run | null, step: number): number => Math.max(0, Math.min(step, (run?.target.length ?? 1) - 1));

/** Go to a place that the model has: a link may name a layer or a part that it lacks. */
function fitPlace(choice: Choice, description: Description): void {
  const stack = stackOf(description, choice.stack) ?? description.stacks[0];
  if (!stack) return;
  choice.stack = stack.name;
  choice.layer = Math.min(choice.layer, stack.layers.length - 1);
  const part = partOf(stack, choice.layer, choice.part);
  if ((choice.level === "heads" || choice.level === "cell") && !siteOf(part)) choice.level = "block";
  if (part?.kind === "attention") choice.head = Math.min(choice.head, part.heads - 1);
}

/** encoder.1 = the output of a layer, cross.1.3 = the output of a head; :2 at the end = at this position only */
export function parsePatch(name: string): NonNullable<NonNullable<TraceRequest["patch"]>["sites"]>[number] {
  const [place = "", position] = name.split(":");
  const [kind, layer, head] = place.split(".");
  return { kind: kind as SiteName, layer: Number(layer), ...(head === undefined ? {} : { head: Number(head) }), ...(position === undefined ? {} : { position: Number(position) }) };
}

/** The list without the item if it is in it, else with it */
export function toggle<T>(list: T[], item: T): T[] {
  return list.includes(item) ? list.filter((other) => other !== item) : [...list, item];
}

export const session = new Session();
