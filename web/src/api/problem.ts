/** An error answer of the server: problem details as in RFC 9457. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail);
  }

  static async fromResponse(response: Response): Promise<Problem> {
    const body: unknown = await response.json().catch(() => null);
    return new Problem(response.status, problemText(body) ?? `${response.status} ${response.statusText}`);
  }
}

/** The detail of a problem, else its title; null if the body has neither. */
export function problemText(body: unknown): string | null {
  if (typeof body !== "object" || body === null) return null;
  const { detail, title } = body as { detail?: unknown; title?: unknown };
  for (const text of [detail, title]) if (typeof text === "string" && text) return text;
  return null;
}
