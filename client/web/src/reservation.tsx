// Reservations: the list, and one of them with its four words, its hops, its history, and what can be done with it.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, ask, query } from "./api";
import { At, Head, State, Table, Trouble, Wrong } from "./bits";
import type { Change, Events, Part, Reservation as Doc, ReservationReading, Reservations as List, SignalledReservations } from "./documents";
import { useOnEvents, usePoll, useShared, useStream } from "./hooks";
import { Ring } from "./live";
import { KEY, Strip, type Reading } from "./strip";
import { amount, fromField, instant, kindOf, millis, partOf, span, toField, typed } from "./units";

/** The reservations of one page. */
const PAGE = 500;

const OVER = "held,booked,active,suspended,ended,cancelled,expired";

export function Reservations() {
  const [all, setAll] = useState(false);
  const [words, setWords] = useState("");
  // The cursors of the pages before this one, the last of which is this page's own.
  const [pages, setPages] = useState<string[]>([]);
  const list = usePoll<List>(query("/v1/reservations", { state: all ? OVER : undefined, limit: PAGE, after: pages.at(-1) }), 5000);
  const next = list.data?.next;
  useOnEvents(list.again);
  const { me } = useShared();
  const rows = (list.data?.reservations ?? []).filter((one) => `${one.label} ${one.owner} ${one.id} ${one.state}`.toLowerCase().includes(words.toLowerCase()));
  return (
    <>
      <Head title="Reservations" more={
        <>
          <input aria-label="Words to look for" placeholder="label, owner, state" style={{ width: "14rem" }} value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          <button type="button" aria-pressed={all} onClick={() => { setAll(!all); setPages([]); }}>also what is over</button>
        </>
      }>{me.role === "owner" ? "Yours" : "Everybody's"}{list.data ? `: ${rows.length}${pages.length ? ` on page ${pages.length + 1}` : ""}${list.data.more ? ", and more" : ""}` : ""}</Head>
      <section class="sheet">
        <Trouble polled={list} what="Reservations" />
        <Table caption="Reservations" rows={[...rows].reverse()} none="None. The calendar is where one is made." columns={[
          { head: "Name", cell: (one) => <a href={`#/reservations/${one.id}`}>{one.label || one.id}</a> },
          { head: "State", cell: (one) => <State state={one.state} /> },
          { head: "Owner", cell: (one) => one.owner },
          { head: "Between", cell: (one) => (one.path ? `${one.path.from} → ${one.path.to}` : [...new Set(one.parts.map((part) => part.resource))].join(", ")) },
          { head: "Amount", number: true, cell: (one) => amount(one.parts[0]?.steps[0]?.amount, one.parts[0]?.unit ?? "") },
          { head: "From", cell: (one) => <At at={one.parts[0]?.steps[0]?.start} /> },
          { head: "To", cell: (one) => <At at={one.parts[0]?.steps.at(-1)?.end ?? "forever"} /> },
        ]} />
        {(next || pages.length > 0) && (
          <div class="row noprint">
            <button type="button" disabled={pages.length === 0} onClick={() => setPages(pages.slice(0, -1))}>Made before</button>
            <button type="button" disabled={!next} onClick={() => next && setPages([...pages, next])}>Made after</button>
          </div>
        )}
      </section>
      {me.role !== "owner" && <SignalledOnes />}
    </>
  );
}

/** What RSVP and Boomerang asked for, which is in no calendar. */
function SignalledOnes() {
  const found = usePoll<SignalledReservations>("/v1/signalled", 3000);
  return (
    <section class="sheet" aria-labelledby="signalled">
      <h2 id="signalled">Signalled</h2>
      <p class="soft small">Reserved by RSVP or Boomerang, at each interface that carries the packets: they live as long as they are refreshed.</p>
      <Trouble polled={found} what="Signalled reservations" />
      <Table caption="Signalled reservations" rows={found.data?.reservations ?? []} none="None." columns={[
        { head: "Packets", cell: (row) => `${row.from} → ${row.to}, ${{ 6: "TCP", 17: "UDP" }[row.protocol] ?? `protocol ${row.protocol}`}` },
        { head: "Resource", cell: (row) => row.resource ?? row.agent },
        { head: "Service", cell: (row) => row.service.replace("-", " ") },
        { head: "Asked", number: true, cell: (row) => amount(row.asked_bps, "bit/s") },
        { head: "Admitted (wire)", number: true, cell: (row) => amount(row.admitted_wire_bps, "bit/s") },
        { head: "Installed", number: true, cell: (row) => amount(row.installed_bps, "bit/s") },
        { head: "Measured", number: true, cell: (row) => amount(row.measured_bps, "bit/s") },
        { head: "State", cell: (row) => (row.state ? <State state={row.state} /> : "–") },
        { head: "Expires", cell: (row) => (row.expires_in_ms == null ? "with its application" : `in ${span(row.expires_in_ms)}`) },
      ]} />
      {found.data?.more && <p class="soft">and more than an agent says at once</p>}
    </section>
  );
}

/** The readings of a part, a second apart: the last five minutes. */
function useReadings(reading: ReservationReading | undefined, chosen: number): Reading[] {
  const ring = useRef({ of: chosen, ring: new Ring<Reading>(300) });
  const [readings, setReadings] = useState<Reading[]>([]);
  useEffect(() => {
    if (ring.current.of !== chosen) ring.current = { of: chosen, ring: new Ring<Reading>(300) };
    const part = reading?.parts[chosen] ?? reading?.parts[0];
    if (!reading || !part) return;
    ring.current.ring.push({ at: millis(reading.at), values: [part.asked, part.now, part.installed, part.measured ?? null] });
    setReadings(ring.current.ring.all());
  }, [reading, chosen]);
  return readings;
}

export function Reservation({ id }: { id: string }) {
  const { zone } = useShared();
  const path = `/v1/reservations/${encodeURIComponent(id)}`;
  const one = usePoll<Doc>(path, 5000);
  const history = usePoll<Events>(`${path}/history`, 15_000);
  useOnEvents(() => {
    one.again();
    history.again();
  });
  // What changes each second comes in a stream, which the broker reads once for all who look.
  const reading = useStream<ReservationReading>(`${path}/measured`, "measured");
  const [chosen, setChosen] = useState(0);
  const doc = one.data;
  const part = doc?.parts[chosen] ?? doc?.parts[0];
  const newest = reading?.parts[chosen] ?? reading?.parts[0];
  const readings = useReadings(reading, chosen);
  if (!doc) return <><Head title="Reservation" /><Trouble polled={one} what="This reservation" />{!one.failure && <p>…</p>}</>;
  const first = doc.parts[0]?.steps[0];
  const end = doc.parts[0]?.steps.at(-1)?.end;
  const over = ["ended", "cancelled", "expired"].includes(doc.state);
  const hops = [...new Set(doc.parts.map((part) => part.way ?? ""))];
  const words = part ? [
    ["asked", "Asked", newest?.asked ?? part.asked ?? part.steps[0]?.amount], ["admitted", "Admitted now", newest?.now ?? part.now],
    ["installed", "Installed", newest?.installed ?? part.installed], ["measured", "Measured", newest?.measured ?? part.measured?.amount],
  ] as const : [];
  return (
    <>
      <Head title={doc.label || "Reservation"} more={<button type="button" onClick={() => print()}>Print</button>}>
        <State state={doc.state} /> of <b>{doc.owner}</b>, {doc.path ? `${doc.path.from} → ${doc.path.to}, ` : ""}<At at={first?.start} /> to <At at={end ?? "forever"} /> <span class="small">({span(millis(end) - millis(first?.start))})</span>
        <div class="mono small">{doc.id}</div>
      </Head>
      <Trouble polled={one} what="This reservation" />
      {(doc.missing?.length || doc.away?.length) ? (
        <div class="note bad"><p><b>Not whole.</b> {doc.missing?.length ? `Not known at ${doc.missing.join(", ")}. ` : ""}{doc.away?.length ? `No answer from ${doc.away.join(", ")}.` : ""}</p></div>
      ) : null}
      {doc.parts.filter((part) => part.fault).map((part) => <div class="note bad"><p><b>{part.resource} is not in force.</b> {part.fault}</p></div>)}
      <section class="sheet" aria-labelledby="words">
        <div class="head">
          <h2 id="words">{part?.resource ?? "Parts"}</h2>
          {doc.parts.length > 1 && <select aria-label="Part" style={{ width: "auto" }} value={String(chosen)} onChange={(event) => setChosen(Number(event.currentTarget.value))}>{doc.parts.map((part, n) => <option value={String(n)}>{part.resource}{part.way ? `, ${part.way}` : ""}</option>)}</select>}
        </div>
        {part && <dl class="numbers">{words.map(([name, title, value]) => <div class={name}><dt>{title}</dt><dd>{amount(value, part.unit)}</dd></div>)}</dl>}
        {part && <Strip readings={readings} unit={part.unit} zone={zone} key={chosen} />}
        <p class="key">{KEY.map(({ name, colour }) => <span><i style={{ background: colour }} />{name}</span>)}</p>
        <Table folded caption="The strip as a table" rows={readings.slice(-10).reverse()} columns={[
          { head: "Time", cell: (reading) => <At at={instant(reading.at)} /> },
          ...KEY.map(({ name }, n) => ({ head: name, number: true, cell: (reading: Reading) => amount(reading.values[n], part?.unit ?? "") })),
        ]} />
      </section>
      <section class="sheet" aria-labelledby="hops">
        <h2 id="hops">Hop by hop</h2>
        {hops.map((way) => <ol class="hop" aria-label={way || "parts"}>{doc.parts.filter((part) => (part.way ?? "") === way).map((part) => <li><span><b>{part.resource}</b><br /><State state={part.enforced} /></span></li>)}</ol>)}
        <h3>Parts</h3>
        <Table caption="Parts" rows={doc.parts} columns={[
          { head: "Resource", cell: (part) => part.resource },
          { head: "Way", cell: (part) => part.way ?? "–" },
          { head: "Asked", number: true, cell: (part) => amount(part.asked ?? part.steps[0]?.amount, part.unit) },
          { head: "Admitted", number: true, cell: (part) => amount(part.now, part.unit) },
          { head: "Installed", number: true, cell: (part) => amount(part.installed, part.unit) },
          { head: "Measured", number: true, cell: (part) => amount(part.measured?.amount, part.unit) },
          { head: "In force", cell: (part) => <State state={part.enforced} /> },
          { head: "Kind", cell: (part) => part.kind ?? "–" },
          { head: "Bound to", cell: (part) => bound(part) },
        ]} />
      </section>
      <div class="halves">
        <section class="sheet" aria-labelledby="history">
          <h2 id="history">History</h2>
          <Trouble polled={history} what="History" />
          <Table caption="History" rows={(history.data?.events ?? []).slice(-200).reverse()} columns={[
            { head: "Time", cell: (event) => <At at={event.at} /> },
            { head: "Event", cell: (event) => event.event.replace("_", " ") },
            { head: "At", cell: (event) => event.agent },
            { head: "", cell: (event) => event.text ?? (event.to != null ? amount(event.to, part?.unit ?? "") : "") },
          ]} />
        </section>
        {!over && <Deeds doc={doc} again={() => { one.again(); history.again(); }} />}
      </div>
    </>
  );
}

/** Whose packets or processes a part serves, in words. */
function bound({ binding }: Part): string {
  if (!binding) return "nothing yet";
  if ("flow" in binding) {
    const { src, src_port, dst, dst_port, protocol } = binding.flow;
    const end = (address?: string | null, port?: number | null) => `${address ?? "any"}${port ? `:${port}` : ""}`;
    const name = protocol == null ? "" : { 6: " by TCP", 17: " by UDP" }[protocol] ?? ` by protocol ${protocol}`;
    return `${end(src, src_port)} → ${end(dst, dst_port)}${name}`;
  }
  if ("pid" in binding) return `process ${binding.pid}`;
  return "tid" in binding ? `thread ${binding.tid}` : `control group ${binding.cgroup}`;
}

/** Change, commit, bind and cancel. */
function Deeds({ doc, again }: { doc: Doc; again: () => void }) {
  const { zone } = useShared();
  const [failure, setFailure] = useState<Failure>();
  const [done, setDone] = useState("");
  const [sure, setSure] = useState(false);
  const [rate, setRate] = useState("");
  const [end, setEnd] = useState("");
  const [port, setPort] = useState({ protocol: "17", from: "", to: "" });
  const path = `/v1/reservations/${encodeURIComponent(doc.id)}`;
  const run = async (what: string, deed: () => Promise<unknown>) => {
    try {
      await deed();
      setFailure(undefined);
      setDone(what);
      again();
    } catch (error) {
      setDone("");
      setFailure(error instanceof Failure ? error : new Failure(0, "odd", "Odd", String(error)));
    }
  };
  const change = (event: Event) => {
    event.preventDefault();
    const wanted: Change = {};
    const value = typed(rate);
    const first = doc.parts[0];
    if (value && doc.path) wanted.forward = Math.round(value);
    else if (value && first) {
      const { resource: _, ...fields } = partOf(first.resource, value);
      wanted.amounts = [{ ...fields, part: 0 }];
    }
    if (end) wanted.end = instant(fromField(end, zone));
    void run("Changed.", () => ask(path, "PATCH", wanted));
  };
  const bind = (event: Event) => {
    event.preventDefault();
    const flow = { protocol: Number(port.protocol), ...(port.from ? { from_port: Number(port.from) } : {}), ...(port.to ? { to_port: Number(port.to) } : {}) };
    void run("Bound.", () => ask(`${path}/bind`, "POST", { flow }));
  };
  const last = doc.parts[0]?.steps.at(-1)?.end;
  return (
    <section class="sheet noprint" aria-labelledby="deeds">
      <h2 id="deeds">Change</h2>
      <form onSubmit={change}>
        <div class="row">
          <label>{doc.path ? "Rate there" : "Amount"}<input value={rate} placeholder="as it is" onInput={(event) => setRate(event.currentTarget.value)} /></label>
          <label>End<input type="datetime-local" value={end || (last && last !== "forever" ? toField(millis(last), zone) : "")} onChange={(event) => setEnd(event.currentTarget.value)} /></label>
        </div>
        <button type="submit" disabled={!typed(rate) && !end}>Change</button>
      </form>
      {doc.path && kindOf(doc.parts[0]?.resource ?? "") !== "cpu" && (
        <form onSubmit={bind}>
          <h3>Whose packets</h3>
          <div class="row">
            <label>Protocol<select value={port.protocol} onChange={(event) => setPort({ ...port, protocol: event.currentTarget.value })}><option value="17">UDP</option><option value="6">TCP</option></select></label>
            <label>Port at {doc.path.from}<input inputMode="numeric" placeholder="any" value={port.from} onInput={(event) => setPort({ ...port, from: event.currentTarget.value })} /></label>
            <label>Port at {doc.path.to}<input inputMode="numeric" placeholder="any" value={port.to} onInput={(event) => setPort({ ...port, to: event.currentTarget.value })} /></label>
          </div>
          <button type="submit">Bind</button>
        </form>
      )}
      <h3>Give it back</h3>
      <div class="row">
        {doc.state === "held" && <button type="button" class="main" onClick={() => void run("Booked.", () => ask(`${path}/commit`, "POST"))}>Book what is held</button>}
        {sure ? (
          <>
            <button type="button" class="danger" onClick={() => void run("Cancelled.", () => ask(path, "DELETE"))}>Yes, cancel it</button>
            <button type="button" onClick={() => setSure(false)}>No</button>
          </>
        ) : <button type="button" class="danger" onClick={() => setSure(true)}>Cancel…</button>}
      </div>
      <div aria-live="polite"><p />{done && <div class="note good"><p>{done}</p></div>}<Wrong failure={failure} /></div>
    </section>
  );
}
