/** A refusal of the server, in its own words. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail);
  }

  static async of(response: Response): Promise<Problem> {
    const body: unknown = await response.json().catch(() => null);
    return new Problem(response.status, said(body) ?? `${response.status} ${response.statusText}`);
  }
}

export function said(body: unknown): string | null {
  if (typeof body !== "object" || body === null) return null;
  const { detail, title } = body as { detail?: unknown; title?: unknown };
  for (const text of [detail, title]) if (typeof text === "string" && text) return text;
  return null;
}
