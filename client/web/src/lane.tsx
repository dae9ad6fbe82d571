// A lane of the calendar: what is in use of a resource over time, its reservations, and a draft that is dragged or
// moved by keys.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure } from "./api";
import { Wrong } from "./bits";
import type { AlternativeDoc, Reservation, ResourceRow, StepDoc, Wish } from "./documents";
import { Axis, atX, x, type Scale } from "./scale";
import { MINUTE, amount, clock, example, instant, millis, partOf, span, typed } from "./units";
import { alternative, book, enquire, inWords, pack, unitOf, type Answered } from "./wish";

/** The pause of a drag after which the broker is asked, milliseconds. */
const PAUSE = 150;
const [TOP, AREA, ROW] = [16, 46, 17];
/** The most blocks that are drawn: more are no more than their sum. */
const MOST = 300;

export type Block = { one: Reservation; part: number; from: number; to: number; amount: number };

/** The blocks of a resource within a time. */
export function blocksOf(resource: string, all: Reservation[], { from, to }: Scale): Block[] {
  return all.flatMap((one) =>
    one.parts.flatMap((part, n) => {
      const name = part.resource.startsWith(`${part.agent}/`) ? part.resource : `${part.agent}/${part.resource}`;
      if (name !== resource) return [];
      return part.steps
        .map((step: StepDoc) => ({ one, part: n, from: millis(step.start), to: millis(step.end), amount: step.amount }))
        .filter((block) => block.to > from && block.from < to);
    }),
  );
}

/** The row of each block, so that none lies over another. */
function pack_rows(blocks: Block[]): { block: Block; row: number }[] {
  const ends: number[] = [];
  return [...blocks].sort((a, b) => a.from - b.from).map((block) => {
    const free = ends.findIndex((end) => end <= block.from);
    const row = free < 0 ? ends.length : free;
    ends[row] = block.to;
    return { block, row };
  });
}

type Draft = { from: number; to: number };
type Lane = { row: ResourceRow; blocks: Block[]; scale: Scale; zone: string; now: number; step: number; booked: () => void };

export function Lane({ row, blocks, scale, zone, now, step, booked }: Lane) {
  const [draft, setDraft] = useState<Draft>();
  const [text, setText] = useState(example(row.capacity, row.unit));
  const [answer, setAnswer] = useState<{ wish: Wish; said: Answered }>();
  const [failure, setFailure] = useState<Failure>();
  const [made, setMade] = useState<Reservation>();
  const [begun, setBegun] = useState<number>();
  const turn = useRef(0);
  const value = typed(text);
  const wish: Wish | undefined = draft && value
    ? { parts: [partOf(row.resource, value)], start: instant(Math.max(draft.from, now)), end: instant(draft.to) }
    : undefined;
  const key = JSON.stringify(wish && [wish.parts, draft]);
  useEffect(() => {
    setAnswer(undefined);
    if (!wish) return;
    const mine = ++turn.current;
    const timer = setTimeout(async () => {
      try {
        const said = await enquire(wish);
        if (mine === turn.current) { setAnswer({ wish, said }); setFailure(undefined); }
      } catch (error) {
        if (mine === turn.current && error instanceof Failure) setFailure(error);
      }
    }, PAUSE);
    return () => clearTimeout(timer);
  }, [key]);
  const take = async (wanted: Wish) => {
    try {
      setMade(await book(wanted));
      setDraft(undefined);
      setFailure(undefined);
      booked();
    } catch (error) {
      if (error instanceof Failure) setFailure(error);
    }
  };
  const place = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const at = atX(scale, ((event.clientX - box.left) / box.width) * scale.width);
    return Math.round(at / (step / 4)) * (step / 4);
  };
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -step, ArrowRight: step }[event.key];
    if (by) {
      event.preventDefault();
      const first = Math.ceil(Math.max(now, scale.from) / step) * step;
      const old = draft ?? { from: first, to: first + step };
      setMade(undefined);
      if (!draft) setDraft(old);
      else if (event.shiftKey) setDraft({ ...old, to: Math.max(old.from + step, old.to + by) });
      else if (old.from + by >= now - step) setDraft({ from: old.from + by, to: old.to + by });
    } else if (event.key === "Enter" && answer?.said.accepted) {
      event.preventDefault();
      void take(answer.wish);
    } else if (event.key === "Escape") setDraft(undefined);
  };
  const refusal = answer && !answer.said.accepted ? answer.said : undefined;
  const ghosts = refusal?.refusal?.alternatives ?? [];
  const rows = blocks.length > MOST ? [] : pack_rows(blocks);
  const height = TOP + AREA + 6 + ROW * Math.max(1, ...rows.map(({ row }) => row + 1));
  const colour = answer ? (answer.said.accepted ? "var(--active)" : "var(--broken)") : "var(--soft)";
  const time = (at: number) => clock(at, zone, now);
  return (
    <div class="lane" data-resource={row.resource}>
      <p><b>{row.resource}</b><span class="small soft">{amount(row.free, row.unit)} of {amount(row.capacity, row.unit)} free now · {blocks.length} here</span> <a class="small noprint" href={`/v1/calendar.ics?resource=${encodeURIComponent(row.resource)}`} download={`${row.resource.replaceAll("/", "-")}.ics`} aria-label={`.ics: calendar file of ${row.resource}`}>.ics</a></p>
      <svg viewBox={`0 0 ${scale.width} ${height}`} height={height} preserveAspectRatio="none" tabindex={0} role="application" aria-roledescription="lane of a calendar"
        aria-label={`${row.resource}: drag, or right and left arrows, shift and arrows for the end, Enter to book`}
        onKeyDown={keys}
        onPointerDown={(event) => { if (event.button !== 0 || (event.target as Element).closest("a")) return; event.currentTarget.setPointerCapture(event.pointerId); setBegun(place(event)); setMade(undefined); }}
        onPointerMove={(event) => { if (begun === undefined) return; const at = place(event); if (at !== begun) setDraft({ from: Math.max(Math.min(begun, at), now), to: Math.max(begun, at, now + MINUTE) }); }}
        onPointerUp={() => setBegun(undefined)} onPointerCancel={() => setBegun(undefined)}>
        <Axis scale={scale} zone={zone} now={now} height={height} />
        <rect x="0" y={TOP} width={scale.width} height={AREA} fill="var(--free)" opacity=".45" />
        {(row.timeline ?? []).map((part) => {
          const [a, b] = [x(scale, millis(part.start)), x(scale, millis(part.end))];
          const used = Math.min(1, Math.max(0, 1 - part.amount / (row.capacity || 1)));
          return <rect x={a} y={TOP + AREA * (1 - used)} width={Math.max(0, b - a)} height={AREA * used} fill="var(--c0)" opacity=".75" />;
        })}
        {rows.map(({ block, row: at }) => {
          const [a, b] = [x(scale, block.from), x(scale, block.to)];
          const y = TOP + AREA + 4 + at * ROW;
          const name = block.one.label || block.one.owner;
          return (
            <a href={`#/reservations/${block.one.id}`}>
              <rect x={a} y={y} width={Math.max(3, b - a)} height={ROW - 3} rx="3" fill={block.one.state === "active" ? "#0b6e4f" : block.one.state === "broken" ? "#b3261e" : block.one.state === "held" ? "#8a5200" : "#1f5f9f"} />
              {b - a > 50 && <text class="on" x={a + 5} y={y + 11}>{name.slice(0, Math.floor((b - a - 8) / 7))}</text>}
              <title>{`${name}, ${block.one.state}: ${amount(block.amount, row.unit)}, ${time(block.from)}–${time(block.to)}`}</title>
            </a>
          );
        })}
        {draft && value && (
          <rect x={x(scale, draft.from)} width={Math.max(2, x(scale, draft.to) - x(scale, draft.from))} y={TOP + AREA * (1 - Math.min(1, value / row.capacity))} height={AREA * Math.min(1, value / row.capacity)} fill={colour} opacity=".4" stroke={colour} stroke-width="2" />
        )}
        {draft && ghosts.map((ghost) => {
          const step = ghost.parts[0]?.[0];
          if (!step) return null;
          const [a, b] = [x(scale, millis(step.start)), x(scale, millis(step.end))];
          const tall = AREA * Math.min(1, step.amount / row.capacity);
          const other = alternative(answer?.wish ?? {}, ghost);
          return <rect class="ghost" x={a} width={Math.max(4, b - a)} y={TOP + AREA - tall} height={tall} fill="var(--ghost)" fill-opacity=".15" stroke="var(--ghost)" stroke-width="2" stroke-dasharray="6 4" onPointerDown={(event) => event.stopPropagation()} onClick={() => other && void take(other)}><title>{inWords(ghost, answer?.wish ?? {}, time)}</title></rect>;
        })}
      </svg>
      {blocks.length > MOST && <p class="small soft">{blocks.length} reservations here: their sum is drawn. Choose a shorter time to see each.</p>}
      {draft && (
        <div class="row noprint">
          <label class="short">{row.unit === "bit/s" ? "Rate" : "Amount"}<input value={text} onInput={(event) => setText(event.currentTarget.value)} aria-invalid={value === undefined} /></label>
          <span>{time(draft.from)}–{time(draft.to)} ({span(draft.to - draft.from)})</span>
          <button type="button" class="main" disabled={!answer?.said.accepted} onClick={() => answer && void take(answer.wish)}>{answer ? "Book" : "Asking…"}</button>
          <button type="button" onClick={() => setDraft(undefined)}>Drop</button>
        </div>
      )}
      <div aria-live="polite">
        {draft && answer?.said.accepted && <p class="active"><b>This would be granted.</b></p>}
        {draft && refusal && <Refused answer={refusal} wish={answer?.wish ?? {}} time={time} take={take} />}
        <Wrong failure={failure} />
        {made && <div class="note good"><p><b>Booked.</b> <a href={`#/reservations/${made.id}`}>{made.label || "See the reservation"}</a></p></div>}
      </div>
    </div>
  );
}

/** Why not, and what would be granted instead: one click books it. */
export function Refused({ answer, wish, time, take, here }: {
  answer: Extract<Answered, { accepted: false }>; wish: Wish; time: (at: number) => string; take: (wish: Wish) => Promise<void>; here?: boolean;
}) {
  const { resource, free, asked, start, reason } = answer.refusal ?? {};
  const full = reason === "no_room" && resource && free != null && asked != null;
  const unit = unitOf(resource ?? "");
  const ghosts: AlternativeDoc[] = answer.refusal?.alternatives ?? [];
  return (
    <div class="note bad">
      <p>
        <b>Not like this.</b>{" "}
        {full ? `${resource} has ${amount(free, unit)} free where ${amount(asked, unit)} is asked${start ? `, from ${time(millis(start))}` : ""}.` : answer.message}{" "}
        {!here && <a href={`#/why/${pack(wish)}`}>See why not</a>}
      </p>
      {ghosts.length > 0 && (
        <div class="ghosts">
          {ghosts.map((ghost) => {
            const other = alternative(wish, ghost);
            const words = inWords(ghost, wish, time);
            return other ? <button type="button" onClick={() => void take(other)}>{words}</button> : <span class="small">{words}</span>;
          })}
        </div>
      )}
    </div>
  );
}
