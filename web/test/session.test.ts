import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Model } from "../src/api/model";

const translator = {
  id: "demo",
  kind: "encdec",
  task: "translator",
  languages: ["en", "fr"],
  parameters: 1,
  d_model: 4,
  vocab: 9,
  sites: {},
  picture: null,
} satisfies Model;
const token = (text: string) => ({ id: 5, text, word: 0, character: null });
const trace = {
  id: "trace",
  model: "demo",
  text: "oui",
  source: ["a", "b"].map(token),
  target: [token("</s>")],
  read: [token("<s>")],
  written: "Oui !",
  n_prompt: 0,
  n_cut: 0,
  hypotheses: [{ text: "oui", score: 0, log_prob: 0, tokens: [], node: "r", ended_by: "end", log_probs: [] }],
  chosen: 0,
  predictions: [],
  predicts: "target",
  sites: [],
  beam: { k: 1, steps: [] },
  cache: null,
  expires: 1,
};
let requests: { path: string; body: Record<string, unknown> }[];

/** A session with a server that has these models, opened with this hash */
async function startSession(models: Partial<Model>[], hash = "#text=yes") {
  const sentence = (before: string, source: string, tag: string) => ({ before, source, read: tag + source.toLowerCase().slice(0, -1), unknown: ["maybe"] });
  const answers: Record<string, () => Response> = {
    "v1/models": () => Response.json({ models: models.map((model) => ({ ...translator, ...model })), examples: {} }),
    "v1/tokenize": () => Response.json({ tokens: [token("y")], merges: null }),
    "v1/translate": () => new Response('event: done\ndata: {"text": "Non."}\n\n'),
    "v1/trace": () => new Response(`event: done\ndata: ${JSON.stringify(trace)}\n\n`),
    "v1/trace/trace/lens?k=4": () => Response.json({ rows: [] }),
    "v1/next": () => Response.json({ top: [], rest: 0, entropy: 0 }),
  };
  vi.stubGlobal("location", { hash });
  vi.stubGlobal("fetch", async (path: string, { body }: { body?: string }) => {
    requests.push({ path, body: body ? JSON.parse(body) : {} });
    if (path.endsWith("/flow")) return new Response(new Uint8Array([2, 0, 0, 0, 0, 0, 0, 0, 123, 125]));
    if (path === "v1/sentences") {
      const { text, to } = JSON.parse(body!) as { text: string; to?: string };
      const sources = (text.match(/[^.!]+[.!]?/g) ?? []).map((source) => source.trim());
      return Response.json({ sentences: sources.map((source, i) => sentence(i ? " " : "", /[.!]$/.test(source) ? source : `${source}.`, to ? `>>${to}<< ` : "")), after: "" });
    }
    if (path.startsWith("v1/describe")) return Response.json({ stacks: [], blocks: [], output: {} });
    return answers[path]?.() ?? new Response(null, { status: 404 });
  });
  const { session } = await import("../src/state/session.svelte");
  await session.start();
  expect(session.errorMessage).toBe("");
  return session;
}
const bodies = (...paths: string[]) => requests.filter(({ path }) => paths.includes(path)).map(({ body }) => body);

beforeEach(() => {
  requests = [];
  vi.resetModules();
  vi.stubGlobal("document", { body: { classList: { toggle: () => false } } });
  vi.stubGlobal("navigator", { language: "en" });
});
afterEach(() => vi.unstubAllGlobals());

test("the model's own beam and length penalty apply until the user changes them", async () => {
  const session = await startSession([{ decode: { beam: 7, length_penalty: 0.6 } }], "#text=Yes!+No.");
  expect(bodies("v1/translate", "v1/trace")).toHaveLength(2);
  for (const body of bodies("v1/translate", "v1/trace")) {
    expect(body).not.toHaveProperty("beam");
    expect(body).not.toHaveProperty("length_penalty");
  }
  expect(session.hash).not.toMatch(/beam|penalty/);

  requests = [];
  session.choice.beam = 2;
  await session.decode();
  expect(bodies("v1/translate", "v1/trace")).toMatchObject([{ beam: 2 }, { beam: 2 }]);
  for (const body of bodies("v1/translate", "v1/trace")) expect(body).not.toHaveProperty("length_penalty");
  expect(session.hash).toContain("beam=2");
});

test("a permalink with a beam and a length penalty is honoured, also the former default values", async () => {
  await startSession([{}], "#text=Yes!+No.&beam=4&penalty=1");
  const settings = { beam: 4, length_penalty: 1 };
  expect(bodies("v1/translate", "v1/trace")).toMatchObject([settings, settings]);
});

test.each([
  [{ kind: "encdec", can_hide_tokens: false } as const, false],
  [{ kind: "encdec", can_hide_tokens: true } as const, true],
  [{ kind: "rnn", can_hide_tokens: true } as const, true],
  [{ kind: "encdec" } as const, true],
  [{ kind: "rnn" } as const, false],
  [{ kind: "decoder" } as const, false],
])("source tokens of %o can be hidden: %s", async (model, expected) => {
  const session = await startSession([model], "#text=yes&mask=1");
  expect(session.canHideTokens).toBe(expected);
  expect(bodies("v1/trace").at(-1)?.mask_src).toEqual(expected ? [1] : undefined);
});

test("a language model continues its prompt, whatever the server calls the task", async () => {
  for (const task of ["writer", "generator"]) {
    vi.resetModules();
    requests = [];
    const session = await startSession([{ kind: "decoder", task: task as Model["task"] }]);
    expect(session.isGenerator).toBe(true);
    expect(bodies("v1/translate")).toEqual([]);
    expect(bodies("v1/trace")).toMatchObject([{ text: "yes", max_len: 40 }]);
  }
});

test("every sentence is decoded once: the one that is looked into, as the model reads it, and the others together", async () => {
  const session = await startSession([{}], "#text=Yes!+No.");
  expect(bodies("v1/tokenize", "v1/trace")).toMatchObject([{ text: "yes" }, { text: "yes", source: "Yes!" }]);
  await vi.waitFor(() => expect(session.passage.translations).toEqual(["Oui !", "Non."]));
  expect(bodies("v1/translate")).toMatchObject([{ text: "No." }]);
  expect(session.passage.unknown).toEqual(["maybe"]);

  requests = [];
  await session.selectSentence(1);
  expect(bodies("v1/translate", "v1/sentences")).toEqual([]);
  expect(bodies("v1/tokenize", "v1/trace")).toMatchObject([{ text: "no" }, { text: "no" }]);
  expect(session.hash).toContain("sentence=1");

  await session.toggleHidden(0);
  expect(session.run?.trace.text).toBe("oui"); // what the model makes of the changed sentence
  await session.submitText("Yes!");
  expect(bodies("v1/translate")).toEqual([]);
  expect([session.choice.sentence, session.passage.translations]).toEqual([0, ["Oui !"]]);
});

test("a translator with several target languages is told which one, and its sentences have tags", async () => {
  const models = [{ targets: ["fr", "de"] }, { id: "pair" }, { id: "many", targets: ["it", "de"] }];
  const session = await startSession(models, "#text=yes&to=de");
  expect([session.to, bodies("v1/sentences")[0]?.to]).toEqual(["de", "de"]);
  await session.selectTarget("fr");
  expect(bodies("v1/sentences")[1]).toMatchObject({ to: "fr" });
  expect(session.hash).toContain("to=fr");
  expect(session.modelInput).toEqual({ text: ">>fr<< yes" });
  expect(session.inputFor(session.models[1]!)).toEqual({ text: "yes" });
  expect(session.inputFor(session.models[2]!)).toEqual({ text: "yes", to: "it" });

  await session.selectModel("pair");
  expect(session.to).toBe("");
  expect(bodies("v1/sentences").at(-1)).not.toHaveProperty("to");
  expect(session.inputFor(session.models[0]!)).toEqual({ text: "yes", to: "fr" });
});

test("a change keeps the run as it is, asks only for the changed one, and is undone", async () => {
  const session = await startSession([{ sites: { cross: [2, 4] } }]);
  requests = [];
  await session.toggleHead("cross.1.3");
  expect(bodies("v1/trace")).toMatchObject([{ ablate: ["cross.1.3"] }]);
  expect(session.run).toBe(session.variant.value?.run);
  session.go({ asItIs: true });
  expect(session.run).toBe(session.baseline.value?.run);
  await session.undoChanges();
  expect([session.hasChanges, session.variant.value]).toEqual([false, null]);
});

test("heads that the model does not have are dropped from a link", async () => {
  const session = await startSession([{ sites: { cross: [2, 4] } }], "#text=yes&ablate=cross.1.3,cross.7.0,nowhere.0.0");
  expect(session.choice.ablate).toEqual(["cross.1.3"]);
});

test("nothing of the previous answer stays after an error", async () => {
  const session = await startSession([{}]);
  expect(session.run).not.toBeNull();
  vi.stubGlobal("fetch", async () => Response.json({ title: "Too long", detail: "the text is too long" }, { status: 413 }));
  await session.submitText("another text");
  expect(session.errorMessage).toBe("the text is too long");
  expect([session.run, session.passage.translations, session.partial]).toEqual([null, [], ""]);
});

test("an old trace that the server has deleted is made again, once", async () => {
  const session = await startSession([{}]);
  const { Problem } = await import("../src/api/problem");
  const gone = new Problem(404, "there is no such trace");
  session.reportError(gone);
  expect(session.errorMessage).toBe("there is no such trace"); // a new trace is not gone: something else is wrong
  vi.spyOn(performance, "now").mockReturnValue(1e9);
  requests = [];
  session.reportError(gone);
  await vi.waitFor(() => expect(session.run).not.toBeNull());
  expect(bodies("v1/trace")).toHaveLength(1);
  expect(session.errorMessage).toBe("");

  vi.spyOn(performance, "now").mockReturnValue(2e9);
  vi.stubGlobal("fetch", async () => Response.json({ detail: "there is no such model" }, { status: 404 }));
  session.reportError(gone);
  await vi.waitFor(() => expect(session.errorMessage).toBe("there is no such model"));
});

test("going back to another view asks the server for nothing", async () => {
  const session = await startSession([{}], "#text=yes");
  requests = [];
  await session.openPermalink("#text=yes&model=demo&level=block&layer=1");
  expect([session.choice.level, requests]).toEqual(["block", []]);
});

test("a language model samples only at a temperature above 0", async () => {
  const session = await startSession([{ kind: "decoder", task: "writer" }]);
  expect(bodies("v1/trace")[0]).not.toHaveProperty("samples");
  session.go({ temperature: 0.8, topK: 5 });
  await session.decode();
  expect(bodies("v1/trace").at(-1)).toMatchObject({ samples: 4, temperature: 0.8, top_k: 5, seed: 1, hypothesis: 0 });
});

test("patches name a layer's output or a head's, at all positions or at one", async () => {
  const { parsePatch } = await import("../src/state/session.svelte");
  expect(parsePatch("encoder.1")).toEqual({ kind: "encoder", layer: 1 });
  expect(parsePatch("cross.1.3:2")).toEqual({ kind: "cross", layer: 1, head: 3, position: 2 });
  const session = await startSession([{}]);
  await session.change({ donor: "no", patch: ["encoder.0:1"] });
  expect(bodies("v1/trace").at(-1)).toMatchObject({ baseline: "trace", patch: { text: "no", sites: [{ kind: "encoder", layer: 0, position: 1 }] } });
});
