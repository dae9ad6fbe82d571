// Admin: agents and their versions, what they note, interfaces with their classes; and what somebody may.
import { useEffect, useState } from "preact/hooks";
import { Failure, ask, query } from "./api";
import { At, Head, State, Table, Trouble, Wrong } from "./bits";
import type { Agents, Doctors, Interfaces, MayDoc, Resources } from "./documents";
import { usePoll, useShared } from "./hooks";
import { amount, kindOf, span, typed } from "./units";

export function Admin() {
  const { me } = useShared();
  const sees = me.role !== "owner";
  const agents = usePoll<Agents>("/v1/agents", 3000);
  const interfaces = usePoll<Interfaces>(sees ? "/v1/interfaces" : null, 5000);
  const notes = (interfaces.data?.agents ?? []).flatMap((agent) => agent.notes.map((note) => ({ agent: agent.agent, note })));
  const classes = (interfaces.data?.agents ?? []).flatMap(({ agent, interfaces }) =>
    // The loopback carries nothing that could be reserved.
    interfaces.filter((one) => one.name !== "lo").flatMap((one) => (one.classes.length ? one.classes : [undefined]).map((of) => ({ agent, one, of }))),
  );
  return (
    <>
      <Head title="Admin">You are <b>{me.name}</b>, {me.seat} in the table of rights{me.groups.length ? `, of ${me.groups.join(", ")}` : ""}</Head>
      <div class="halves">
        <section class="sheet" aria-labelledby="agents">
          <h2 id="agents">Agents</h2>
          <Trouble polled={agents} what="Agents" />
          <Table caption="Agents" rows={agents.data?.agents ?? []} columns={[
            { head: "Agent", cell: (row) => <b>{row.agent}</b> },
            { head: "", cell: (row) => (row.away ? <State state="away" /> : <span class="pill active">answers</span>) },
            { head: "Version", cell: (row) => (row.version && row.version !== me.version ? <b class="held">{row.version}</b> : row.version ?? "–") },
            { head: "Runs", cell: (row) => (row.uptime_ms == null ? "–" : span(row.uptime_ms)) },
            { head: "", cell: (row) => <span class="small">{row.away ?? ""}</span> },
          ]} />
        </section>
        <May />
      </div>
      {sees && (
        <>
          <section class="sheet" aria-labelledby="notes">
            <h2 id="notes">What the agents note</h2>
            <Trouble polled={interfaces} what="Interfaces" />
            <Table caption="Notes" rows={notes} none="Nothing: the kernels have what is asked of them." columns={[
              { head: "Agent", cell: (row) => <b>{row.agent}</b> },
              { head: "Note", cell: (row) => row.note },
            ]} />
          </section>
          <Machines />
          <section class="sheet" aria-labelledby="classes">
            <h2 id="classes">Interfaces and classes</h2>
            <p class="soft small">As read from the kernel: what each class is guaranteed, and what it has sent.</p>
            <Table caption="Interfaces and classes" rows={classes} columns={[
              { head: "Interface", cell: ({ agent, one }) => <b>{agent}/{one.name}</b> },
              { head: "Rate", number: true, cell: ({ one }) => amount(one.rate_wire_bps, "bit/s") },
              { head: "Plane", cell: ({ one }) => one.plane ?? "none" },
              { head: "Class", cell: ({ of }) => (of ? `${of.name} ${of.class}` : "–") },
              { head: "Guaranteed", number: true, cell: ({ of }) => amount(of?.rate_wire_bps, "bit/s") },
              { head: "Packets", number: true, cell: ({ of }) => of?.packets ?? "–" },
              { head: "Dropped", number: true, cell: ({ of }) => of?.drops ?? "–" },
            ]} />
          </section>
        </>
      )}
    </>
  );
}

/** What the machines have and lack, and certificates with their ends. */
function Machines() {
  const found = usePoll<Doctors>("/v1/doctor", 60_000);
  const agents = found.data?.agents ?? [];
  // The first question starts an examination, which takes a moment.
  const examining = agents.some((agent) => !agent.kernel);
  useEffect(() => {
    if (!examining) return;
    const timer = setTimeout(found.again, 1000);
    return () => clearTimeout(timer);
  }, [found.data]);
  const lacking = agents.flatMap(({ agent, findings }) => findings.filter((one) => !one.there).map((one) => ({ agent, one })));
  const warnings = agents.flatMap(({ agent, warnings }) => warnings.map((one) => ({ agent, one })));
  const soon = Date.now() + 30 * 86_400_000;
  return (
    <div class="halves">
      <section class="sheet" aria-labelledby="doctor">
        <h2 id="doctor">What the doctor finds</h2>
        <Trouble polled={found} what="The doctor" />
        <Table caption="Machines" rows={agents} columns={[
          { head: "Agent", cell: (row) => <b>{row.agent}</b> },
          { head: "Kernel", cell: (row) => row.kernel || "being examined" },
          { head: "", cell: (row) => (!row.kernel ? "" : row.can_reserve ? <span class="pill active">enforces</span> : <span class="pill failed">cannot enforce</span>) },
          { head: "Lacks", cell: (row) => row.findings.filter((one) => !one.there).map((one) => one.name).join(", ") || "nothing" },
        ]} />
        <Table folded caption={`What is missing, and what is used instead (${lacking.length})`} rows={lacking} columns={[
          { head: "Agent", cell: ({ agent }) => agent },
          { head: "What", cell: ({ one }) => `${one.area}: ${one.name}` },
          { head: "Instead", cell: ({ one }) => one.text },
        ]} />
        <Table folded caption={`Warnings (${warnings.length})`} rows={warnings} columns={[
          { head: "Agent", cell: ({ agent }) => agent },
          { head: "Of", cell: ({ one }) => one.of },
          { head: "Warning", cell: ({ one }) => one.text },
        ]} />
      </section>
      <section class="sheet" aria-labelledby="certificates">
        <h2 id="certificates">Certificates</h2>
        <Table caption="Certificates" rows={found.data?.certificates ?? []} none="None: the broker speaks to agents of this machine alone." columns={[
          { head: "Shown by", cell: (row) => <b>{row.of}</b> },
          { head: "Name", cell: (row) => row.name },
          { head: "Good until", cell: (row) => (Date.parse(row.until) < soon ? <b class="broken"><At at={row.until} /></b> : <At at={row.until} />) },
        ]} />
      </section>
    </div>
  );
}

/** "What may alice do?": the rule that would decide. */
function May() {
  const resources = usePoll<Resources>("/v1/resources", 60_000);
  const [fields, setFields] = useState({ who: "", resource: "", amount: "1mbit" });
  const [said, setSaid] = useState<MayDoc>();
  const [failure, setFailure] = useState<Failure>();
  const rows = resources.data?.resources ?? [];
  const resource = fields.resource || rows[0]?.resource || "";
  const look = async (event: Event) => {
    event.preventDefault();
    const value = typed(fields.amount);
    const field = { net: "rate", sla: "rate", cpu: "cores", disk: "bytes_per_s" }[kindOf(resource)] ?? "count";
    try {
      setSaid(await ask<MayDoc>(query("/v1/may", { resource, [field]: field === "cores" ? value : value && Math.round(value), who: fields.who, duration_s: 3600 })));
      setFailure(undefined);
    } catch (error) {
      setSaid(undefined);
      if (error instanceof Failure) setFailure(error);
    }
  };
  return (
    <section class="sheet" aria-labelledby="may">
      <h2 id="may">What may somebody do?</h2>
      <form onSubmit={look}>
        <div class="row">
          <label>Who<input value={fields.who} placeholder="yourself" onInput={(event) => setFields({ ...fields, who: event.currentTarget.value })} /></label>
          <label>Resource<select value={resource} onChange={(event) => setFields({ ...fields, resource: event.currentTarget.value })}>{rows.map((row) => <option value={row.resource}>{row.resource}</option>)}</select></label>
          <label>Amount<input value={fields.amount} onInput={(event) => setFields({ ...fields, amount: event.currentTarget.value })} /></label>
        </div>
        <button type="submit">Ask</button>
      </form>
      <div aria-live="polite">
        <p />
        <Wrong failure={failure} />
        {said?.parts.map((part) => (
          <div class={`note ${part.allowed ? "good" : "bad"}`}>
            <p><b>{said.who} {part.allowed ? "may" : "may not"}</b> for an hour from now, by {part.rule || "no rule"}{part.why ? `: ${part.why}` : ""}</p>
          </div>
        ))}
      </div>
    </section>
  );
}
