/** Presentation: full screen and large type. */
import { session } from "../state/session.svelte";

export function togglePresent(): void {
  const present = !session.choice.present;
  if (present) document.documentElement.requestFullscreen?.().catch(() => undefined); // an iframe or a test may forbid it
  else if (document.fullscreenElement) void document.exitFullscreen();
  session.go({ present });
}

/** Full screen and presentation end together, whichever ends first: by Esc, Back or the button. */
export function onFullscreenChange(): void {
  if (!document.fullscreenElement && session.choice.present) session.go({ present: false });
}
export function matchFullscreen(): void {
  if (!session.choice.present && document.fullscreenElement) void document.exitFullscreen();
}
