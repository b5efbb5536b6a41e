/** Play and pause: decoding shown again, word by word. */
import { session } from "./session.svelte";

const INTERVAL = 1700; // milliseconds per word

class Player {
  playing = $state(false);
  /** The last step that is shown; null: all of them */
  private last = $state<number | null>(null);
  private timer = 0;

  /** The step up to which the output is shown */
  readonly said = $derived(Math.min(this.last ?? Infinity, this.end));

  /** The last step of the run that is shown */
  private get end(): number {
    return (session.run?.target.length ?? 1) - 1;
  }

  toggle = (): void => {
    if (this.playing) return this.pause();
    if (!session.run?.target.length) return;
    this.playing = true;
    if (session.step >= this.end || this.last === null) this.show(0);
    else this.show(session.step + 1);
    this.timer = window.setInterval(() => {
      if (session.step >= this.end) this.pause();
      else this.show(session.step + 1);
    }, INTERVAL);
  };

  pause(): void {
    clearInterval(this.timer);
    this.playing = false;
  }

  /** Show the whole output again. */
  reset(): void {
    this.pause();
    this.last = null;
  }

  /** Move by one step; later words disappear until they are said again. */
  step(delta: number): void {
    this.pause();
    this.show(Math.max(0, Math.min(this.end, session.step + delta)));
  }

  /** Select a step without hiding what comes later. */
  select(step: number): void {
    this.pause();
    session.go({ step });
    if (this.last !== null && step > this.last) this.last = step;
  }

  private show(step: number): void {
    this.last = step;
    session.go({ step });
  }
}

export const player = new Player();
