/** Presentation: full screen and large type. */
import { session } from "../state/session.svelte";

export function togglePresent(): void {
  const present = !session.choice.present;
  if (present) document.documentElement.requestFullscreen?.().catch(() => undefined); // an iframe or a test may forbid it
  else if (document.fullscreenElement) void document.exitFullscreen();
  session.go({ present });
}

export function leavePresentation(): void {
  if (session.choice.present) togglePresent();
}
