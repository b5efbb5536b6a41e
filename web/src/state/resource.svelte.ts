const running = new Set<Promise<unknown>>();

/** Wait until nothing is being loaded, but not longer than this. */
export const loadsDone = (milliseconds: number): Promise<unknown> =>
  Promise.race([Promise.allSettled(running), new Promise((over) => setTimeout(over, milliseconds))]);

/** A value that is loaded again and again. The old value stays until the new one has arrived. */
export class Resource<T> {
  value = $state.raw<T | null>(null);
  busy = $state(false);
  private running: AbortController | null = null;

  /** Load a new value and abort the load that is still running. `onError` does not receive the errors of aborted loads. */
  async load(fetchValue: (signal: AbortSignal) => Promise<T>, onError: (error: unknown) => void): Promise<T | null> {
    this.running?.abort();
    const controller = (this.running = new AbortController());
    this.busy = true;
    const loading = fetchValue(controller.signal);
    running.add(loading);
    try {
      const value = await loading;
      if (controller.signal.aborted) return null;
      return (this.value = value);
    } catch (error) {
      if (!controller.signal.aborted) onError(error);
      return null;
    } finally {
      running.delete(loading);
      if (this.running === controller) this.busy = false;
    }
  }

  /** Show a value that is already there, instead of the one that may still be loading. */
  set(value: T): void {
    this.clear();
    this.value = value;
  }

  clear(): void {
    this.running?.abort();
    this.value = null;
    this.busy = false;
  }
}
