/** A text that is translated sentence by sentence: the one that is traced, and the others together, each decoded once. */
import * as api from "../api/client";
import type { Sentence, SentencesAsk } from "../api/types";
import { Resource } from "./resource.svelte";

type Settings = { beam?: number; length_penalty?: number };

export class Passage {
  sentences = $state.raw<Sentence[]>([]);
  /** What follows the last sentence */
  after = $state("");
  /** The translation of each sentence; null: not yet */
  translations = $state.raw<(string | null)[]>([]);
  readonly unknown = $derived([...new Set(this.sentences.flatMap(({ unknown }) => unknown))]);
  private readonly others = new Resource<string[]>();
  readonly busy = $derived(this.others.busy);
  private key = "";

  clear(): void {
    this.others.clear();
    [this.key, this.sentences, this.after, this.translations] = ["", [], "", []];
  }

  /** Split a text into sentences, unless that has been done for the same text and settings. */
  async read(request: SentencesAsk, settings: Settings, signal: AbortSignal): Promise<void> {
    const key = JSON.stringify([request, settings]);
    if (key === this.key) return;
    this.clear();
    const { sentences, after } = await api.sentences(request, signal);
    signal.throwIfAborted();
    [this.key, this.sentences, this.after, this.translations] = [key, sentences, after, sentences.map(() => null)];
  }

  /** The number of a sentence that is there */
  nearest = (sentence: number): number => Math.max(0, Math.min(sentence, this.sentences.length - 1));

  put(sentence: number, translation: string): void {
    this.translations = this.translations.map((known, i) => (i === sentence ? translation : known));
  }

  /** Translate the sentences that are still missing, in one request with a line for each. */
  async translateOthers({ model, to }: SentencesAsk, settings: Settings, onError: (error: unknown) => void): Promise<void> {
    const missing = this.translations.flatMap((known, i) => (known === null ? [i] : []));
    if (!missing.length) return;
    const text = missing.map((i) => this.sentences[i]!.source).join("\n");
    const lines = await this.others.load(async (signal) => {
      const { text: translated } = await api.translate({ model, text, ...(to ? { to } : {}), ...settings }, () => undefined, signal);
      return translated.split("\n");
    }, onError);
    if (lines) missing.forEach((sentence, i) => this.put(sentence, lines[i] ?? ""));
  }

  /** Stop translating the other sentences. Those that are missing stay so. */
  stop(): void {
    this.others.clear();
  }
}
