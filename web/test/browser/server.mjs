/** A `regard serve` in a process of its own, which a test may kill. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";

async function freePort() {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  listener.close();
  await once(listener, "close");
  return port;
}

const answers = (address) =>
  fetch(`${address}/v1/models`).then(
    ({ ok }) => ok,
    () => false,
  );

/** Run a command that serves, with `--port` added; returns when it answers. */
export async function startServer([program, ...words], port) {
  port ??= await freePort();
  const address = `http://127.0.0.1:${port}`;
  const server = spawn(program, [...words, "--port", String(port)], { stdio: "ignore" });
  const ended = once(server, "exit");
  while (!(await answers(address))) {
    if (server.exitCode !== null) throw new Error(`the server ended with ${server.exitCode}`);
    await new Promise((over) => setTimeout(over, 100));
  }
  const kill = async () => {
    server.kill("SIGKILL");
    await ended;
  };
  return { address, port, kill };
}
