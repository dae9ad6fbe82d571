// The calendar: a lane for each resource over an hour, a day or a week; beside it a form for whole paths.
import { useEffect, useRef, useState } from "preact/hooks";
import { Head, Table, Trouble } from "./bits";
import type { Reservations, Resources } from "./documents";
import { Form } from "./form";
import { useNow, useOnEvents, usePoll, useShared } from "./hooks";
import { Lane, blocksOf } from "./lane";
import type { Scale } from "./scale";
import { query } from "./api";
import { DAY, HOUR, MINUTE, amount, clock, date, fromField, instant, kindOf, midnight, toField } from "./units";

const VIEWS = { hour: [HOUR, 5 * MINUTE], day: [DAY, HOUR], week: [7 * DAY, 6 * HOUR] } as const;
type View = keyof typeof VIEWS;

/** The width that an element has now. */
function useWidth(): [{ current: HTMLDivElement | null }, number] {
  const place = useRef<HTMLDivElement | null>(null);
  const [width, setWidth] = useState(800);
  useEffect(() => {
    if (!place.current) return;
    const seen = new ResizeObserver(([entry]) => entry && setWidth(Math.max(260, Math.round(entry.contentRect.width))));
    seen.observe(place.current);
    return () => seen.disconnect();
  }, []);
  return [place, width];
}

export function Calendar() {
  const { zone } = useShared();
  const now = useNow(5000);
  const [view, setView] = useState<View>("day");
  const [begin, setBegin] = useState<number>();
  const [kind, setKind] = useState("net");
  const [place, width] = useWidth();
  const [length, step] = VIEWS[view];
  const usual = view === "hour" ? Math.floor(now / (15 * MINUTE)) * 15 * MINUTE : view === "day" ? Math.floor(now / HOUR) * HOUR : midnight(now, zone);
  const from = begin ?? usual;
  // A week has the length of its days: with a change of clocks not seven times 24 hours.
  const to = view === "week" ? midnight(from + length + 2 * HOUR, zone) : from + length;
  const scale: Scale = { from, to, width };
  const window = { from: instant(from), to: instant(to) };
  const resources = usePoll<Resources>(query("/v1/resources", window), 5000);
  const all = usePoll<Reservations>(query("/v1/reservations", window), 5000);
  const again = () => { resources.again(); all.again(); };
  useOnEvents(again);
  const kinds = [...new Set((resources.data?.resources ?? []).map((row) => kindOf(row.resource)))];
  const shown = kinds.includes(kind) ? kind : kinds[0];
  const rows = (resources.data?.resources ?? []).filter((row) => kindOf(row.resource) === shown);
  const found = all.data?.reservations ?? [];
  const move = (by: number) => setBegin(from + by * length);
  return (
    <>
      <Head title="Calendar" more={
        <>
          {(Object.keys(VIEWS) as View[]).map((name) => <button type="button" aria-pressed={view === name} onClick={() => { setView(name); setBegin(undefined); }}>{name}</button>)}
          <button type="button" aria-label="Earlier" onClick={() => move(-1)}>←</button>
          <button type="button" onClick={() => setBegin(undefined)}>now</button>
          <button type="button" aria-label="Later" onClick={() => move(1)}>→</button>
          <button type="button" onClick={() => print()}>Print</button>
          <a class="button" href="/v1/calendar.ics" download="reservations.ics">Calendar file</a>
          <input type="datetime-local" aria-label="From" class="small" style={{ width: "13.5rem" }} value={toField(from, zone)} onChange={(event) => { const at = fromField(event.currentTarget.value, zone); if (Number.isFinite(at)) setBegin(at); }} />
        </>
      }>{date(from, zone)}, {clock(from, zone, from)} to {clock(to, zone, from)}, {zone}</Head>
      <div class="grid">
        <section class="sheet" aria-label="Lanes">
          <div class="row noprint">
            {kinds.map((name) => <button type="button" aria-pressed={shown === name} onClick={() => setKind(name)}>{name}</button>)}
            <span class="small soft">Drag in a lane to ask; the broker answers at each pause. Keys: arrows, shift and arrows, Enter.</span>
          </div>
          <Trouble polled={resources} what="Resources" />
          <Trouble polled={all} what="Reservations" />
          <div ref={place}>
            {rows.map((row) => <Lane key={row.resource} row={row} blocks={blocksOf(row.resource, found, scale)} scale={scale} zone={zone} now={now} step={step} booked={again} />)}
            {resources.data && rows.length === 0 && <p class="soft">There is nothing that can be reserved{resources.data.away?.length ? `: ${resources.data.away.join(", ")} do not answer` : ""}.</p>}
          </div>
          <p class="key">
            <span><i style={{ background: "var(--c0)" }} />in use</span><span><i style={{ background: "#1f5f9f" }} />booked</span><span><i style={{ background: "#0b6e4f" }} />active</span><span><i style={{ background: "#8a5200" }} />held</span><span><i style={{ background: "#b3261e" }} />broken</span><span><i style={{ border: "2px dashed var(--ghost)" }} />would be granted instead</span>
          </p>
          <Table folded caption="The lanes as a table" rows={rows.flatMap((row) => blocksOf(row.resource, found, scale).map((block) => ({ row, block })))} none="Nothing is reserved in this time." columns={[
            { head: "Resource", cell: ({ row }) => row.resource },
            { head: "Reservation", cell: ({ block }) => <a href={`#/reservations/${block.one.id}`}>{block.one.label || block.one.id}</a> },
            { head: "Owner", cell: ({ block }) => block.one.owner },
            { head: "Amount", number: true, cell: ({ row, block }) => amount(block.amount, row.unit) },
            { head: "From", cell: ({ block }) => clock(block.from, zone, now) },
            { head: "To", cell: ({ block }) => clock(block.to, zone, now) },
          ]} />
        </section>
        <Form resources={resources.data?.resources ?? []} booked={again} />
      </div>
    </>
  );
}
