/** The newest answer to a question that is asked again and again. The old one stays until the new one is there. */
export class Latest<T> {
  value = $state.raw<T | null>(null);
  busy = $state(false);
  private asked: AbortController | null = null;

  /** Asks, and leaves off whatever was asked before. Errors go to `failed`, but for those of what was left off. */
  async ask(question: (signal: AbortSignal) => Promise<T>, failed: (error: unknown) => void): Promise<T | null> {
    this.asked?.abort();
    const mine = (this.asked = new AbortController());
    this.busy = true;
    try {
      const answer = await question(mine.signal);
      if (mine.signal.aborted) return null;
      return (this.value = answer);
    } catch (error) {
      if (!mine.signal.aborted) failed(error);
      return null;
    } finally {
      if (this.asked === mine) this.busy = false;
    }
  }

  clear(): void {
    this.asked?.abort();
    this.value = null;
    this.busy = false;
  }
}
