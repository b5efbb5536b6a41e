/** Play and pause: decoding shown again, word by word. */
import { session } from "./session.svelte";

const INTERVAL = 1700; // milliseconds per word

class Player {
  playing = $state(false);
  /** The last step that is shown; null: all of them */
  private last = $state<number | null>(null);
  private timer = 0;

  /** The step up to which the output is shown */
  readonly said = $derived(Math.min(this.last ?? Infinity, (session.run?.target.length ?? 1) - 1));

  toggle = (): void => {
    if (this.playing) return this.pause();
    const end = (session.run?.target.length ?? 0) - 1;
    if (end < 0) return;
    this.playing = true;
    if (session.step >= end || this.last === null) this.show(0);
    else this.show(session.step + 1);
    this.timer = window.setInterval(() => {
      if (session.step >= end) this.pause();
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
    const end = (session.run?.target.length ?? 1) - 1;
    this.show(Math.max(0, Math.min(end, session.step + delta)));
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
