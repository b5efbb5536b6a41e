import { untrack } from "svelte";

const running = new Set<Promise<unknown>>();
let count = $state(0);

/** What the page is waiting for: the values of all resources, and the list of models */
export const loads = {
  get busy(): boolean {
    return count > 0;
  },
  /** Count a promise until it is settled. */
  async track<T>(promise: Promise<T>): Promise<T> {
    running.add(promise);
    untrack(() => count++); // an effect that loads something does not depend on what else is loaded
    try {
      return await promise;
    } finally {
      running.delete(promise);
      count--;
    }
  },
};

/** Wait until nothing is being loaded, but not longer than this. */
export const loadsDone = (milliseconds: number): Promise<unknown> =>
  Promise.race([Promise.allSettled(running), new Promise((over) => setTimeout(over, milliseconds))]);

/** A value that is loaded again and again. The old value stays until the new one has arrived. */
export class Resource<T> {
  value = $state.raw<T | null>(null);
  busy = $state(false);
  private running: AbortController | null = null;

  /** Load a new value and abort the load that is still running. `onError` does not receive the errors of aborted loads. */
  async load(fetchValue: (signal: AbortSignal) => Promise<T | null>, onError: (error: unknown) => void): Promise<T | null> {
    this.running?.abort();
    const controller = (this.running = new AbortController());
    this.busy = true;
    try {
      const value = await loads.track(fetchValue(controller.signal));
      if (controller.signal.aborted) return null;
      return (this.value = value);
    } catch (error) {
      if (!controller.signal.aborted) onError(error);
      return null;
    } finally {
      if (this.running === controller) this.busy = false;
    }
  }

  /** Load a value for something else: the old one is not shown meanwhile, nor after an error. */
  loadNew(...parameters: Parameters<Resource<T>["load"]>): Promise<T | null> {
    this.value = null;
    return this.load(...parameters);
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
