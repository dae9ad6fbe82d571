// Requests to the broker, and what went wrong with one, in words for people.
import type { Problem, RefusalDoc } from "./documents";

/** A request without an answer of the kind that was expected. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly kind: string,
    readonly title: string,
    message: string,
    readonly refusal?: RefusalDoc,
  ) {
    super(message);
  }
  /** True if nobody is signed in, or no longer. */
  get isSignedOut(): boolean {
    return this.status === 401;
  }
}

/** The longest wait for an answer, milliseconds. */
const PATIENCE = 25_000;

async function problem(response: Response): Promise<Failure> {
  const title = `${response.status} ${response.statusText}`;
  try {
    const said = (await response.json()) as Problem;
    const kind = said.type.split("/").pop() ?? "";
    return new Failure(response.status, kind, said.title, said.detail, said.refusal ?? undefined);
  } catch {
    return new Failure(response.status, "nonsense", title, "the broker's answer makes no sense");
  }
}

/** Asks, and reads the answer. */
export async function ask<T>(path: string, method = "GET", body?: unknown, key?: string): Promise<T> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  let response: Response;
  try {
    const sent = body === undefined ? null : JSON.stringify(body);
    response = await fetch(path, { method, headers, body: sent, signal: AbortSignal.timeout(PATIENCE) });
  } catch (error) {
    const slow = error instanceof DOMException && error.name === "TimeoutError";
    const what = slow ? "the broker did not answer in time" : "the broker does not answer: is it running?";
    throw new Failure(0, "away", "No answer", what);
  }
  if (!response.ok) {
    const failure = await problem(response);
    if (failure.isSignedOut && path !== "/session") signedOut.tell(failure);
    throw failure;
  }
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** Who hears that the session is over. */
export const signedOut = {
  tell: (_: Failure): void => {},
};

/** A query: what is empty is left out. */
export function query(path: string, fields: Record<string, string | number | undefined>): string {
  const said = Object.entries(fields).filter(([, value]) => value !== undefined && value !== "");
  const text = said.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`).join("&");
  return text ? `${path}?${text}` : path;
}

/** A key that makes a request that is sent twice count once. */
export function freshKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `web-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
