/** Server-Sent Events of a POST, which EventSource cannot read. */
export interface Event {
  name: string;
  data: string;
}

/** Whole events out of what has come so far, and what is left of the next one. */
export function eventsIn(buffer: string): { events: Event[]; left: string } {
  const blocks = buffer.replaceAll("\r\n", "\n").split("\n\n");
  const left = blocks.pop() ?? "";
  return { events: blocks.map(eventOf).filter((event) => event.data !== ""), left };
}

function eventOf(block: string): Event {
  let name = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return { name, data: data.join("\n") };
}

export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Event> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const found = eventsIn(buffer + value);
    buffer = found.left;
    yield* found.events;
  }
}
