// Now: the map, what needs somebody, and how full each resource is, reserved and measured.
import { useEffect, useRef, useState } from "preact/hooks";
import { At, Head, State, Table, Trouble } from "./bits";
import type { Agents, Interfaces, MapDoc, Readings, Reservations, ResourceRow, Resources } from "./documents";
import { useNow, useOnEvents, usePoll, useShared } from "./hooks";
import { Ring } from "./live";
import { NetworkMap } from "./map";
import { amount, kindOf, millis } from "./units";

type Need = { what: string; where: string; to: string; state: string };

function needs(agents: Agents | undefined, resources: Resources | undefined, all: Reservations | undefined): Need[] {
  const found: Need[] = [];
  for (const agent of agents?.agents ?? []) {
    if (agent.away) found.push({ state: "away", where: agent.agent, what: agent.away, to: "#/admin" });
  }
  for (const row of resources?.resources ?? []) {
    if (!row.missing) continue;
    const when = row.missing_from ? `, from ${row.missing_from} on` : "";
    found.push({ state: "broken", where: row.resource, what: `short of ${amount(row.missing, row.unit)}${when}`, to: "#/calendar" });
  }
  for (const one of all?.reservations ?? []) {
    const name = one.label || one.id.slice(0, 10);
    const to = `#/reservations/${one.id}`;
    if (one.state === "broken") {
      const missing = [...(one.missing ?? []), ...(one.away ?? [])].join(", ");
      found.push({ state: "broken", where: name, what: `of ${one.owner}: not whole${missing ? ` (${missing})` : ""}`, to });
    }
    for (const part of one.parts) {
      if (part.enforced === "failed" || part.fault) {
        found.push({ state: "failed", where: name, what: `${part.resource}: ${part.fault ?? "not in force"}`, to });
      }
    }
  }
  return found;
}

/** Octets a second of each class, from two readings of its counters. */
function useRates(doc: Interfaces | undefined): Map<string, { name: string; rate: number; drops: number }[]> {
  type Reading = { at: number; bytes: Map<string, number> };
  const before = useRef<Reading | undefined>(undefined);
  const [rates, setRates] = useState(new Map<string, { name: string; rate: number; drops: number }[]>());
  useEffect(() => {
    if (!doc) return;
    const at = Date.parse(doc.at);
    const bytes = new Map<string, number>();
    const found = new Map<string, { name: string; rate: number; drops: number }[]>();
    for (const { agent, interfaces } of doc.agents) {
      for (const one of interfaces) {
        const sums = new Map<string, { name: string; rate: number; drops: number }>();
        for (const of of one.classes) {
          if (of.name === "link") continue;
          const key = `${agent}/${one.name}/${of.class}`;
          bytes.set(key, of.bytes);
          const old = before.current?.bytes.get(key);
          const seconds = before.current ? (at - before.current.at) / 1000 : 0;
          const rate = old !== undefined && seconds > 0 ? Math.max(0, ((of.bytes - old) * 8) / seconds) : 0;
          const sum = sums.get(of.name) ?? { name: of.name, rate: 0, drops: 0 };
          sums.set(of.name, { name: of.name, rate: sum.rate + rate, drops: sum.drops + of.drops });
        }
        if (sums.size) found.set(`${agent}/net/${one.name}`, [...sums.values()]);
      }
    }
    before.current = { at, bytes };
    setRates(found);
  }, [doc]);
  return rates;
}

/** The classes of the agents' documents, from the best: their names here, and their colours. */
const CLASSES: [name: string, words: string, colour: string][] = [
  ["guaranteed", "guaranteed", "var(--c0)"],
  ["controlled-load", "controlled load", "var(--c1)"],
  ["premium", "premium", "var(--c3)"],
  ["control", "signalling", "var(--c4)"],
  ["measured", "recognised", "var(--c2)"],
  ["background", "background", "var(--held)"],
  ["best-effort", "best effort", "var(--c5)"],
];

function Bar({ row, classes }: { row: ResourceRow; classes: { name: string; rate: number }[] | undefined }) {
  const whole = row.capacity || 1;
  const background = Math.min(row.background_now ?? 0, row.capacity);
  const reserved = Math.max(0, row.capacity - row.free);
  const at = (value: number) => `${Math.min(100, Math.max(0, (value / whole) * 100))}%`;
  let x = 0;
  return (
    <svg width="100%" height={classes ? 26 : 16} role="img" aria-label={`${row.resource}: ${amount(reserved, row.unit)} reserved of ${amount(whole, row.unit)}`}>
      <rect width="100%" height="14" rx="4" fill="var(--free)" />
      <rect width={at(reserved)} height="14" rx="4" fill="var(--c0)" />
      <rect x={at(reserved)} width={at(background)} height="14" fill="var(--c2)" />
      {classes &&
        CLASSES.map(([name, , colour]) => {
          const rate = classes.find((one) => one.name === name)?.rate ?? 0;
          const left = x;
          x += rate;
          return <rect x={at(left)} y="17" width={at(rate)} height="7" fill={colour} />;
        })}
    </svg>
  );
}

type Told = { at: number; value: number };

/** The figures that applications report, each with its last two minutes. */
function Reported() {
  const found = usePoll<Readings>("/v1/readings", 1000);
  const rings = useRef(new Map<string, Ring<Told>>());
  const rows = found.data?.readings ?? [];
  useEffect(() => {
    const names = new Set(rows.map((row) => `${row.owner}/${row.name}`));
    for (const name of rings.current.keys()) if (!names.has(name)) rings.current.delete(name);
    for (const row of rows) {
      const name = `${row.owner}/${row.name}`;
      const ring = rings.current.get(name) ?? new Ring<Told>(120);
      rings.current.set(name, ring);
      if (ring.all().at(-1)?.at !== millis(row.at)) ring.push({ at: millis(row.at), value: row.value });
    }
  }, [found.data]);
  if (!rows.length) return null;
  return (
    <section class="sheet" aria-labelledby="reported">
      <h2 id="reported">What applications report</h2>
      <Table caption="What applications report" rows={rows} columns={[
        { head: "Figure", cell: (row) => <b>{row.name}</b> },
        { head: "Now", number: true, cell: (row) => `${Number(row.value.toPrecision(4))} ${row.unit}` },
        { head: "Last two minutes", cell: (row) => <Line told={rings.current.get(`${row.owner}/${row.name}`)?.all() ?? []} name={row.name} /> },
        { head: "Of", cell: (row) => row.owner },
      ]} />
    </section>
  );
}

function Line({ told, name }: { told: Told[]; name: string }) {
  const last = told.at(-1)?.at ?? 0;
  const most = Math.max(1e-9, ...told.map((one) => one.value));
  const points = told.map((one) => `${(240 - (last - one.at) / 500).toFixed(1)},${(29 - (one.value / most) * 26).toFixed(1)}`);
  return <svg width="240" height="32" role="img" aria-label={`${name}: at most ${Number(most.toPrecision(4))}`}><rect width="240" height="32" fill="var(--free)" opacity=".5" /><polyline points={points.join(" ")} fill="none" stroke="var(--c1)" stroke-width="2" /></svg>;
}

export function Now() {
  const { me } = useShared();
  const now = useNow(1000);
  const agents = usePoll<Agents>("/v1/agents", 1000);
  const map = usePoll<MapDoc>("/v1/map", 5000);
  const resources = usePoll<Resources>("/v1/resources", 3000);
  const all = usePoll<Reservations>("/v1/reservations", 4000);
  const sees = me.role !== "owner";
  const interfaces = usePoll<Interfaces>(sees ? "/v1/interfaces" : null, 2000);
  const rates = useRates(interfaces.data);
  const known = new Set([...rates.values()].flatMap((all) => all.map((one) => one.name)));
  useOnEvents(() => {
    resources.again();
    all.again();
  });
  const [kind, setKind] = useState("");
  const found = needs(agents.data, resources.data, all.data);
  const rows = (resources.data?.resources ?? []).filter((row) => !kind || kindOf(row.resource) === kind);
  const kinds = [...new Set((resources.data?.resources ?? []).map((row) => kindOf(row.resource)))];
  const running = (all.data?.reservations ?? []).filter((one) => one.state === "active").length;
  const waiting = (all.data?.reservations ?? []).filter((one) => one.state === "booked" || one.state === "held").length;
  return (
    <>
      <Head title="Now">
        {agents.data ? `${agents.data.agents.filter((one) => !one.away).length} of ${agents.data.agents.length} agents answer` : "…"}
        {all.data && ` · ${running} active, ${waiting} to come${all.data.more ? ", and more" : ""}`}
        {` · broker “${me.broker}”, version ${me.version}`}
      </Head>
      <Trouble polled={agents} what="Agents" />
      <div class="grid">
        <section class="sheet" aria-labelledby="map">
          <h2 id="map">Map</h2>
          <Trouble polled={map} what="Map" />
          {map.data && agents.data && <NetworkMap map={map.data} resources={resources.data?.resources ?? []} agents={agents.data.agents} />}
          <p class="key"><span><i style={{ background: "var(--c0)" }} />reserved now, each direction from where packets leave</span><span><i style={{ background: "var(--free)" }} />free</span></p>
          {map.data && (
            <Table folded caption="The map as a table" rows={map.data.networks} columns={[
              { head: "Network", cell: (row) => row.network },
              { head: "Interfaces", cell: (row) => row.ends.map((end) => `${end.agent}.${end.interface} ${end.address}`).join(" — ") },
            ]} />
          )}
        </section>
        <section class="sheet" aria-labelledby="needs">
          <h2 id="needs">Needs you</h2>
          <div aria-live="polite">
            {found.length === 0 && <p class="active"><b><span class="dot" />Nothing.</b> All agents answer, all that is reserved is in force.</p>}
            <ul class="needs">
              {found.slice(0, 30).map((need) => (
                <li><State state={need.state} /> <a href={need.to}><b>{need.where}</b></a><br /><span class="small">{need.what}</span></li>
              ))}
            </ul>
            {found.length > 30 && <p>and {found.length - 30} more</p>}
          </div>
        </section>
      </div>
      <Reported />
      <section class="sheet" aria-labelledby="full">
        <div class="head">
          <h2 id="full">How full</h2>
          <div class="row noprint">
            <button type="button" aria-pressed={kind === ""} onClick={() => setKind("")}>all</button>
            {kinds.map((name) => <button type="button" aria-pressed={kind === name} onClick={() => setKind(name)}>{name}</button>)}
          </div>
        </div>
        <Trouble polled={resources} what="Resources" />
        <p class="key">
          <span><i style={{ background: "var(--c0)" }} />reserved</span><span><i style={{ background: "var(--c2)" }} />background</span>
          {sees && <span>below, as measured:</span>}
          {sees && CLASSES.filter(([name]) => known.has(name)).map(([, words, colour]) => <span><i style={{ background: colour }} />{words}</span>)}
        </p>
        <Table caption="Resources" rows={rows} columns={[
          { head: "Resource", cell: (row) => <b>{row.resource}</b> },
          { head: "Now", cell: (row) => <div style={{ minWidth: "12rem" }}><Bar row={row} classes={rates.get(row.resource)} /></div> },
          { head: "Reserved", number: true, cell: (row) => amount(row.capacity - row.free, row.unit) },
          { head: "Of", number: true, cell: (row) => amount(row.capacity, row.unit) },
          ...(sees ? [
            { head: "Measured", number: true, cell: (row: ResourceRow) => { const all = rates.get(row.resource); return all ? amount(all.reduce((sum, one) => sum + one.rate, 0), "bit/s") : "–"; } },
            { head: "Dropped", number: true, cell: (row: ResourceRow) => { const all = rates.get(row.resource); return all ? all.reduce((sum, one) => sum + one.drops, 0) : "–"; } },
          ] : []),
          { head: "Bookings", number: true, cell: (row) => row.reservations },
        ]} />
        <p class="small soft">At {<At at={new Date(now).toISOString()} />}, the broker's time.{resources.data?.away?.length ? ` Missing: ${resources.data.away.join(", ")}, away.` : ""}</p>
      </section>
    </>
  );
}
