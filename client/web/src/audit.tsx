// The audit: every decision of the agents, with its rule. Each agent numbers its own.
import { useState } from "preact/hooks";
import { query } from "./api";
import { At, Head, Table, Trouble } from "./bits";
import type { Agents, AskedDoc, Audits } from "./documents";
import { useOnEvents, usePoll } from "./hooks";
import { amount } from "./units";

const PAGE = 100;

/** What a request asked for: its amounts and times. */
function Wanted({ asked }: { asked: AskedDoc }) {
  const parts = asked.parts.map((part) => `${part.resource} ${part.least == null ? "" : `${amount(part.least, part.unit)} to `}${part.amount == null ? "all that is free" : amount(part.amount, part.unit)}`);
  return (
    <>
      {parts.join(", ")}{asked.volume != null && `, ${amount(asked.volume, "byte/s").replace("/s", "")}`}, <At at={asked.start} /> – {asked.end ? <At at={asked.end} /> : "for ever"}{asked.windows != null && `, ${asked.windows} windows`}
    </>
  );
}

export function Audit() {
  const [who, setWho] = useState("");
  const [agent, setAgent] = useState("");
  const [from, setFrom] = useState<number>();
  const agents = usePoll<Agents>("/v1/agents", 30_000);
  const audit = usePoll<Audits>(query("/v1/audit", { who, agent, from: agent ? from : undefined, limit: PAGE }), from ? 0 : 10_000);
  useOnEvents(() => from === undefined && audit.again());
  const rows = (audit.data?.agents ?? []).flatMap((page) => page.entries.map((entry) => ({ agent: page.agent, ...entry })));
  rows.sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : b.number - a.number));
  const page = agent ? audit.data?.agents[0] : undefined;
  const first = page?.entries[0]?.number ?? 1;
  return (
    <>
      <Head title="Audit" more={
        <>
          <label class="small">Caller<input value={who} onChange={(event) => { setWho(event.currentTarget.value); setFrom(undefined); }} placeholder="all" /></label>
          <label class="small">Agent<select value={agent} onChange={(event) => { setAgent(event.currentTarget.value); setFrom(undefined); }}><option value="">all</option>{(agents.data?.agents ?? []).map((one) => <option value={one.agent}>{one.agent}</option>)}</select></label>
        </>
      }>Every decision, with the rule that made it</Head>
      <section class="sheet">
        <Trouble polled={audit} what="Audit" />
        <Table caption="Decisions" rows={rows} none="No decision matches." columns={[
          { head: "Time", cell: (row) => <At at={row.at} /> },
          { head: "Agent", cell: (row) => row.agent },
          { head: "No.", number: true, cell: (row) => row.number },
          { head: "Caller", cell: (row) => row.who },
          { head: "Asked", cell: (row) => <>{row.verb}{row.asked && <span class="soft"> <Wanted asked={row.asked} /></span>}</> },
          { head: "Outcome", cell: (row) => <span class={row.outcome === "granted" ? "active" : "broken"}><b>{row.outcome.replace("_", " ")}</b></span> },
          { head: "Rules", cell: (row) => row.rules.join(", ") || "–" },
          { head: "Handle", cell: (row) => <span class="mono">{row.handle?.slice(0, 14) ?? "–"}</span> },
        ]} />
        {page && (
          <div class="row noprint">
            <button type="button" disabled={first <= 1} onClick={() => setFrom(Math.max(1, first - PAGE))}>Older</button>
            <button type="button" disabled={page.next > page.last} onClick={() => setFrom(page.next)}>Newer</button>
            <button type="button" disabled={from === undefined} onClick={() => setFrom(undefined)}>Newest</button>
          </div>
        )}
        {audit.data?.away.length ? <p class="soft">Missing: {audit.data.away.join(", ")}, away.</p> : null}
      </section>
    </>
  );
}
