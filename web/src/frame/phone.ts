/** Whether the window is as narrow as a phone: then the panels of the page are tabs. */
import { MediaQuery } from "svelte/reactivity";

export const phone = new MediaQuery("max-width: 760px");
