/** Translates in a thread of its own, so that the page stays responsive. A new request ends the one before. */
import { Translator } from "./translator.js";

let translator = null;
let newest = 0;

self.onmessage = async ({ data }) => {
  newest = data.id;
  try {
    if (data.text === undefined) await load();
    else await translate(data);
  } catch (error) {
    self.postMessage({ id: data.id, error: error.message });
  }
};

async function load() {
  const start = performance.now();
  let nBytes = 0;
  translator = await Translator.load(async (name) => {
    const response = await fetch(new URL(name, import.meta.url));
    if (!response.ok) throw new Error(`${name} could not be loaded (${response.status})`);
    const bytes = await response.arrayBuffer();
    nBytes += bytes.byteLength;
    return bytes;
  });
  const { languages, examples, beam } = translator.config;
  self.postMessage({ ready: { languages, examples, beam, nBytes, milliseconds: performance.now() - start } });
}

async function translate({ id, text, beam }) {
  const start = performance.now();
  const parts = translator.split(text);
  const nSentences = parts.filter((part) => part.isSentence).length;
  let output = "";
  let nDone = 0;
  for (const part of parts) {
    output += part.isSentence ? translator.translateSentence(part.text, beam) : part.text;
    if (!part.isSentence) continue;
    nDone++;
    self.postMessage({ id, output, nDone, nSentences, milliseconds: performance.now() - start });
    await new Promise((resolve) => setTimeout(resolve)); // let a newer request arrive
    if (id !== newest) return;
  }
  self.postMessage({ id, output, nDone, nSentences, milliseconds: performance.now() - start, done: true });
}
