/** Runs an exported page's translator under node: one JSON request per line in, one result per line out. */
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(`${process.argv[2]}/`);
const { clean, Translator } = await import(new URL("translator.js", folder));
const translator = await Translator.load(async (name) => {
  const bytes = await readFile(new URL(name, folder));
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
});

const ANSWERS = {
  search: ({ source, prefix, max_len: maxLength, beam }) => translator.search(source, beam, { prefix, maxLength }),
  log_probs: ({ source, target }) => translator.logProbs(source, target),
  encode: ({ text }) => translator.src.encode(clean(text)),
  decode: ({ ids }) => translator.tgt.decode(ids),
  translate: ({ text, beam }) => translator.translate(text, beam),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { method, ...request } = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(ANSWERS[method](request))}\n`);
}
