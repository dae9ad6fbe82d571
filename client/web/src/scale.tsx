// The time axis of calendar and refusals: moments to places, and ticks at whole hours or days of the chosen zone.
import { DAY, HOUR, MINUTE, date, hourMinute, midnight, offset } from "./units";

export type Scale = { from: number; to: number; width: number };

export function x({ from, to, width }: Scale, at: number): number {
  return ((Math.min(Math.max(at, from), to) - from) / (to - from)) * width;
}

export function atX({ from, to, width }: Scale, place: number): number {
  return from + (Math.min(Math.max(place, 0), width) / width) * (to - from);
}

/** Whole steps within, counted from midnight of the zone: on a day with a change of clocks as its clocks show. */
export function ticks({ from, to, width }: Scale, zone: string): { at: number; label: string; day: boolean }[] {
  const steps = [5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, DAY];
  const step = steps.find((step) => ((to - from) / step) * 62 < width) ?? DAY;
  const found = [];
  let day = midnight(from, zone);
  while (day < to) {
    const next = midnight(day + DAY + 4 * HOUR, zone);
    let last = -Infinity;
    for (let wall = day; wall < next + 2 * HOUR; wall += step) {
      // Where the clocks show a whole step, also after they have changed.
      const at = wall - (offset(wall, zone) - offset(day, zone)) * MINUTE;
      if (at <= last || at >= next) continue;
      last = at;
      if (at >= from && at <= to) found.push({ at, label: at === day ? date(at, zone) : hourMinute(at, zone), day: at === day });
    }
    day = next;
  }
  return found;
}

/** The changes of clocks within. */
export function changes({ from, to }: Scale, zone: string): { at: number; minutes: number }[] {
  const found = [];
  for (let at = Math.ceil(from / HOUR) * HOUR; at <= to && to - from < 60 * DAY; at += HOUR) {
    const minutes = offset(at, zone) - offset(at - HOUR, zone);
    if (minutes !== 0) found.push({ at, minutes });
  }
  return found;
}

export function Axis({ scale, zone, now, height }: { scale: Scale; zone: string; now: number; height: number }) {
  const all = ticks(scale, zone);
  return (
    <g>
      {all.map(({ at, label, day }) => (
        <g>
          <line x1={x(scale, at)} x2={x(scale, at)} y1="16" y2={height} stroke="var(--line)" stroke-width={day ? 2 : 1} />
          {x(scale, at) < scale.width - 30 && <text x={x(scale, at) + 3} y="11">{label}</text>}
        </g>
      ))}
      {changes(scale, zone).map(({ at, minutes }) => (
        <g>
          <line x1={x(scale, at)} x2={x(scale, at)} y1="0" y2={height} stroke="var(--ghost)" stroke-width="2" stroke-dasharray="3 3" />
          <text x={x(scale, at) + 4} y="26">clocks {minutes > 0 ? "+" : "−"}{Math.abs(minutes)} min</text>
        </g>
      ))}
      {now >= scale.from && now <= scale.to && (
        <line x1={x(scale, now)} x2={x(scale, now)} y1="0" y2={height} stroke="var(--broken)" stroke-width="2"><title>now</title></line>
      )}
    </g>
  );
}
