/** The page: sends texts to the worker and shows what comes back. */

const element = (id) => document.getElementById(id);
const [form, input, output, status, search] = ["form", "text", "output", "status", "search"].map(element);
const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
let newest = 0;

function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

const megabytes = (n) => `${(n / 1e6).toFixed(1)} MB`;
const duration = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

function say(text, isProblem = false) {
  status.textContent = text;
  status.classList.toggle("problem", isProblem);
}

function show({ languages: [source, target], examples, beam, nBytes, milliseconds }) {
  const title = `${languageName(source)} → ${languageName(target)}`;
  document.title = element("title").textContent = title;
  [input.lang, output.lang] = [source, target];
  search.replaceChildren(...(beam > 1 ? [new Option(`beam of ${beam}`, beam)] : []), new Option("greedy, faster", 1));
  element("examples").replaceChildren(...examples.map(exampleButton));
  element("translate").disabled = false;
  say(`Ready: ${megabytes(nBytes)} loaded in ${duration(milliseconds)}.`);
  if (input.value.trim()) translate();
}

function exampleButton(text) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
  button.addEventListener("click", () => {
    input.value = text;
    translate();
  });
  return button;
}

function translate() {
  if (element("translate").disabled) return;
  newest++;
  output.setAttribute("aria-busy", "true");
  say("Translating …");
  worker.postMessage({ id: newest, text: input.value, beam: Number(search.value) });
}

function receive({ id, ready, error, output: text, nDone, nSentences, milliseconds, done }) {
  if (ready) return show(ready);
  if (id !== newest) return;
  if (error !== undefined) {
    output.setAttribute("aria-busy", "false");
    return say(error, true);
  }
  output.textContent = text;
  output.setAttribute("aria-busy", String(!done));
  element("copy").disabled = !done || text === "";
  say(done ? `${count(nSentences, "sentence")} in ${duration(milliseconds)}` : `${nDone} of ${count(nSentences, "sentence")} …`);
}

async function copy() {
  await navigator.clipboard.writeText(output.textContent);
  say("Copied.");
}

worker.onmessage = ({ data }) => receive(data);
worker.onerror = () => say("The translator could not be started; this page needs a current browser and a web server.", true);
worker.postMessage({ id: newest });
form.addEventListener("submit", (event) => {
  event.preventDefault();
  translate();
});
input.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  translate();
});
search.addEventListener("change", () => input.value.trim() && translate());
element("copy").addEventListener("click", copy);
element("copy").hidden = !navigator.clipboard; // pages that are neither local nor encrypted may not copy
