/** A stock Firefox, driven by WebDriver BiDi; Playwright's Firefox is a build of its own. Node 20 needs --experimental-websocket. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Firefox asks its own services for nothing, and shows no first-run page. */
const PREFERENCES = {
  "app.normandy.enabled": false,
  "browser.aboutwelcome.enabled": false,
  "browser.safebrowsing.malware.enabled": false,
  "browser.safebrowsing.phishing.enabled": false,
  "browser.startup.homepage_override.mstone": "ignore",
  "datareporting.policy.dataSubmissionEnabled": false,
  "extensions.update.enabled": false,
  "intl.accept_languages": "en",
  "network.captive-portal-service.enabled": false,
  "network.connectivity-service.enabled": false,
  "remote.prefs.recommended": true,
  "services.settings.server": "data:,",
};

const DEADLINE = 20_000;
const pause = (ms) => new Promise((over) => setTimeout(over, ms));

async function start(executable, profile) {
  const lines = Object.entries(PREFERENCES).map(([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});`);
  writeFileSync(join(profile, "user.js"), lines.join("\n"));
  const browser = spawn(executable, ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  const address = await new Promise((found, failed) => {
    browser.stderr.on("data", (data) => {
      said += data;
      const match = /BiDi listening on (ws:\S+)/.exec(said);
      if (match) found(match[1]);
    });
    browser.on("exit", (code) => failed(new Error(`${executable} ended with ${code}: ${said}`)));
  });
  return { browser, address };
}

/** Start Firefox; returns a tab of it. */
export async function launch(executable) {
  const profile = mkdtempSync(join(tmpdir(), "regard-firefox-"));
  const { browser, address } = await start(executable, profile);
  const socket = new WebSocket(`${address}/session`);
  await once(socket, "open");
  const tab = new Tab(socket, async () => {
    browser.kill();
    await once(browser, "exit");
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  });
  await tab.begin();
  return tab;
}

class Tab {
  /** Addresses of all requests of the page */
  requests = [];
  /** Errors on the page and in its console */
  errors = [];
  #waiting = new Map();
  #next = 0;

  constructor(socket, end) {
    this.socket = socket;
    this.end = end;
    socket.addEventListener("message", ({ data }) => this.#receive(JSON.parse(data)));
  }

  #receive({ type, id, result, error, message, method, params }) {
    if (type === "event") this.#note(method, params);
    else if (type === "success") this.#waiting.get(id).done(result);
    else this.#waiting.get(id).failed(new Error(`${error}: ${message}`));
    this.#waiting.delete(id);
  }

  #note(method, params) {
    if (method === "network.beforeRequestSent") this.requests.push(params.request.url);
    if (method === "log.entryAdded" && params.level === "error") this.errors.push(params.text);
  }

  send(method, params) {
    const id = ++this.#next;
    this.socket.send(JSON.stringify({ id, method, params }));
    return new Promise((done, failed) => this.#waiting.set(id, { done, failed }));
  }

  async begin() {
    await this.send("session.new", { capabilities: {} });
    const { contexts } = await this.send("browsingContext.getTree", {});
    this.context = contexts[0].context;
    await this.send("session.subscribe", { events: ["network.beforeRequestSent", "log.entryAdded"], contexts: [this.context] });
    await this.send("browsingContext.setViewport", { context: this.context, viewport: { width: 1440, height: 900 } });
  }

  open = (url) => this.send("browsingContext.navigate", { context: this.context, url, wait: "complete" });
  back = () => this.send("browsingContext.traverseHistory", { context: this.context, delta: -1 });

  /** The value of an expression on the page, which must fit in JSON */
  async evaluate(expression) {
    const target = { context: this.context };
    const { result, exceptionDetails } = await this.send("script.evaluate", { expression: `JSON.stringify(${expression})`, target, awaitPromise: false });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.text}`);
    return result.type === "undefined" ? undefined : JSON.parse(result.value);
  }

  /** Wait until an expression is true. */
  async until(expression) {
    for (const start = performance.now(); !(await this.evaluate(expression)); await pause(30))
      if (performance.now() - start > DEADLINE) throw new Error(`${expression} is still false after ${DEADLINE / 1000} s`);
  }

  /** Click at a point of an element: the middle, or other fractions of its width and height. */
  async click(selector, across = 0.5, down = 0.5) {
    const box = await this.evaluate(`(() => {
      const shown = document.querySelector(${JSON.stringify(selector)});
      shown.scrollIntoView({ block: "nearest" });
      return shown.getBoundingClientRect();
    })()`);
    const [x, y] = [Math.round(box.x + across * box.width), Math.round(box.y + down * box.height)];
    const actions = [{ type: "pointerMove", x, y }, { type: "pointerDown", button: 0 }, { type: "pointerUp", button: 0 }];
    await this.#act({ type: "pointer", id: "mouse", actions });
  }

  async type(text) {
    await this.#act({ type: "key", id: "keys", actions: [...text].flatMap((value) => ["keyDown", "keyUp"].map((type) => ({ type, value }))) });
  }

  #act = (source) => this.send("input.performActions", { context: this.context, actions: [source] });

  async screenshot(path) {
    const { data } = await this.send("browsingContext.captureScreenshot", { context: this.context });
    writeFileSync(path, Buffer.from(data, "base64"));
  }

  async close() {
    this.socket.close();
    await this.end();
  }
}
