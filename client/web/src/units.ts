// Amounts and times as people write and read them.
import type { PartDoc } from "./documents";

/** A reading beside its unit, with three significant digits at most. */
export function amount(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (unit === "bit/s" || unit === "byte/s" || unit === "bytes/s") {
    const steps = ["", "k", "M", "G", "T"];
    let step = 0;
    let left = Math.abs(value);
    while (left >= 1000 && step < steps.length - 1) {
      left /= 1000;
      step += 1;
    }
    return `${value < 0 ? "−" : ""}${digits(left)} ${steps[step]}${unit === "bit/s" ? "bit/s" : "B/s"}`;
  }
  return `${digits(value)} ${unit}`;
}

function digits(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** The kind of a resource: `net`, `cpu`, `disk`, ... of AGENT/KIND/NAME. */
export function kindOf(resource: string): string {
  return resource.split("/")[1] ?? resource;
}

/** An amount that was typed, as 3mbit, 0.5, 20mb; undefined: it is none. */
export function typed(text: string): number | undefined {
  const found = /^\s*([0-9]+(?:[.,][0-9]+)?)\s*([a-z/]*)\s*$/i.exec(text);
  if (!found) return undefined;
  const scales: Record<string, number> = { "": 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12 };
  const unit = (found[2] ?? "").toLowerCase().replace(/(bit\/s|bits?|bps|b\/s|bytes?|b|cores?|core)$/, "");
  const scale = scales[unit];
  const value = Number((found[1] ?? "").replace(",", "."));
  return scale === undefined ? undefined : value * scale;
}

/** A part of a wish: an amount of a resource, in the field of its kind. */
export function partOf(resource: string, value: number): PartDoc {
  switch (kindOf(resource)) {
    case "net":
    case "sla":
    case "measured":
      return { resource, rate: Math.round(value) };
    case "cpu":
      return { resource, cores: value };
    case "disk":
      return { resource, bytes_per_s: Math.round(value) };
    default:
      return { resource, count: Math.round(value) };
  }
}

/** An amount as its field takes it, to begin with: a tenth of what there is. */
export function example(capacity: number, unit: string): string {
  const tenth = capacity / 10;
  if (unit === "bit/s") return tenth >= 1e6 ? `${digits(tenth / 1e6)}mbit` : `${digits(tenth / 1e3)}kbit`;
  if (unit.startsWith("byte")) return `${digits(tenth / 1e6)}mb`;
  return digits(Math.max(tenth, unit.startsWith("core") ? 0.1 : 1));
}

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** Milliseconds of an instant; `forever` is later than all. */
export function millis(instant: string | null | undefined): number {
  if (!instant || instant === "forever") return Infinity;
  return Date.parse(instant);
}

export function instant(at: number): string {
  return new Date(Math.round(at / SECOND) * SECOND).toISOString().replace(".000Z", "Z");
}

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = zone + JSON.stringify(options);
  let found = formats.get(key);
  if (!found) {
    found = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone, hourCycle: "h23" });
    formats.set(key, found);
  }
  return found;
}

/** A time in a zone: with the date unless it is today there. */
export function clock(at: number, zone: string, now: number): string {
  if (!Number.isFinite(at)) return "until cancelled";
  const time = format(zone, { hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(at);
  const short = time.endsWith(":00") ? time.slice(0, 5) : time;
  const day = date(at, zone);
  return day === date(now, zone) ? short : `${day} ${short}`;
}

export function date(at: number, zone: string): string {
  return format(zone, { weekday: "short", day: "numeric", month: "short" }).format(at);
}

export function hourMinute(at: number, zone: string): string {
  return format(zone, { hour: "2-digit", minute: "2-digit" }).format(at);
}

/** The lead of a zone over UTC at a moment, minutes. */
export function offset(at: number, zone: string): number {
  const parts = format(zone, {
    year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric",
  }).formatToParts(at);
  const of = (type: string) => Number(parts.find((part) => part.type === type)?.value);
  const local = Date.UTC(of("year"), of("month") - 1, of("day"), of("hour"), of("minute"), of("second"));
  return Math.round((local - at) / MINUTE);
}

/** The first midnight of a zone at or before a moment. */
export function midnight(at: number, zone: string): number {
  const shift = offset(at, zone) * MINUTE;
  const guess = Math.floor((at + shift) / DAY) * DAY - shift;
  // On a day with a change of clocks midnight may have had another offset.
  return guess + (offset(at, zone) - offset(guess, zone)) * MINUTE;
}

/** The moment that a field such as 2026-03-29T02:30 means in a zone. */
export function fromField(text: string, zone: string): number {
  const local = Date.parse(`${text}Z`);
  const first = local - offset(local, zone) * MINUTE;
  return local - offset(first, zone) * MINUTE;
}

export function toField(at: number, zone: string): string {
  return new Date(at + offset(at, zone) * MINUTE).toISOString().slice(0, 16);
}

/** A span in its largest units: 1 h 30 min. */
export function span(ms: number): string {
  if (!Number.isFinite(ms)) return "without an end";
  const left = Math.round(ms / SECOND);
  const [d, h, m, s] = [Math.floor(left / 86400), Math.floor(left / 3600) % 24, Math.floor(left / 60) % 60, left % 60];
  const said = [d ? `${d} d` : "", h ? `${h} h` : "", m ? `${m} min` : "", s && !d && !h ? `${s} s` : ""];
  return said.filter(Boolean).slice(0, 2).join(" ") || "0 s";
}
