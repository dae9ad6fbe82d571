// Wishes that the pages make, and the answers to them.
import { Failure, ask, freshKey } from "./api";
import type { AlternativeDoc, Enquiry, RefusalDoc, Reservation, Wish } from "./documents";
import { amount, kindOf, partOf, millis, span } from "./units";

export type Answered = { accepted: true; enquiry: Enquiry } | { accepted: false; refusal: RefusalDoc | undefined; message: string };

/** Asks what would be granted; nothing is held. */
export async function enquire(wish: Wish): Promise<Answered> {
  try {
    const enquiry = await ask<Enquiry>("/v1/enquiries", "POST", wish);
    if (enquiry.accepted) return { accepted: true, enquiry };
    return { accepted: false, refusal: enquiry.refusal ?? undefined, message: enquiry.refusal?.message ?? "refused" };
  } catch (error) {
    if (error instanceof Failure && error.refusal) return { accepted: false, refusal: error.refusal, message: error.message };
    throw error;
  }
}

export function book(wish: Wish): Promise<Reservation> {
  return ask<Reservation>("/v1/reservations", "POST", wish, freshKey());
}

/** The wish that an alternative to another one amounts to; undefined: nothing here can say it. */
export function alternative(wish: Wish, other: AlternativeDoc): Wish | undefined {
  const first = other.parts.flat()[0];
  if (!first) return undefined;
  const { earliest: _, volume: __, windows: ___, duration_s: ____, ...rest } = wish;
  const when = { start: first.start, end: first.end ?? "forever" };
  if (wish.path) {
    // Its parts are hops of one rate: the rate of the path.
    if (other.sort === "other_path" || (wish.path.forward && wish.path.reverse)) {
      return other.sort === "later" ? { ...rest, ...when } : undefined;
    }
    const rate = Math.floor(Math.min(...other.parts.flat().map((step) => step.amount)));
    const side = wish.path.forward ? { forward: rate } : { reverse: rate };
    return { ...rest, ...when, path: { ...wish.path, ...side } };
  }
  const parts = (wish.parts ?? []).map((part, n) => {
    const step = other.parts[n]?.[0];
    return step ? { ...part, ...partOf(part.resource, step.amount) } : part;
  });
  return other.parts.every((steps) => steps.length === 1) ? { ...rest, ...when, parts } : undefined;
}

export function unitOf(resource: string): string {
  return { net: "bit/s", sla: "bit/s", cpu: "cores", disk: "bytes/s" }[kindOf(resource)] ?? "";
}

/** An alternative in a few words. */
export function inWords(other: AlternativeDoc, wish: Wish, time: (at: number) => string): string {
  const step = other.parts.flat()[0];
  if (!step) return other.sort;
  const resource = wish.parts?.[0]?.resource ?? other.resources?.[0] ?? "x/net/y";
  const end = step.end ? millis(step.end) : Infinity;
  const window = Number.isFinite(end) ? `${time(millis(step.start))}–${time(end)} (${span(end - millis(step.start))})` : `from ${time(millis(step.start))}`;
  const word = { later: "Later", slower: "Less", shorter: "Shorter", other_path: "Another way" }[other.sort];
  return `${word}: ${amount(step.amount, unitOf(resource))}, ${window}`;
}

/** A wish as a part of an address, and back. */
export function pack(wish: Wish): string {
  const bytes = new TextEncoder().encode(JSON.stringify(wish));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export function unpack(text: string): Wish | undefined {
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const wish = JSON.parse(new TextDecoder().decode(bytes)) as Wish;
    return wish && typeof wish === "object" && (wish.path || Array.isArray(wish.parts)) ? wish : undefined;
  } catch {
    return undefined;
  }
}
