// Events as they happen: the newest first, of one stream for all tabs.
import { useState } from "preact/hooks";
import { At, Head, Table } from "./bits";
import { useLive, useShared } from "./hooks";
import { hourMinute } from "./units";

const BAD = new Set(["failing", "short", "contradicted"]);

export function Events() {
  const live = useLive();
  const { zone } = useShared();
  const [words, setWords] = useState("");
  const [bad, setBad] = useState(false);
  const rows = live.events.all().reverse().filter((event) => {
    const text = `${event.event} ${event.owner} ${event.agent} ${event.reservation} ${event.text ?? ""}`;
    return (!bad || BAD.has(event.event)) && text.toLowerCase().includes(words.toLowerCase());
  });
  return (
    <>
      <Head title="Events" more={
        <>
          <input aria-label="Words to look for" placeholder="event, owner, agent" style={{ width: "14rem" }} value={words} onInput={(event) => setWords(event.currentTarget.value)} />
          <button type="button" aria-pressed={bad} onClick={() => setBad(!bad)}>only trouble</button>
        </>
      }>The newest 500, as they happen</Head>
      <section class="sheet">
        {live.state === "away" && <div class="note bad" role="alert"><p>No event stream since {hourMinute(live.since, zone)}. It goes on after the last event as soon as the broker answers.</p></div>}
        {live.lost.size > 0 && <div class="note"><p>Older events of {[...live.lost].join(", ")} are no longer kept.</p></div>}
        <Table caption="Events" rows={rows} none="Nothing has happened yet that you may see." columns={[
          { head: "Time", cell: (event) => <At at={event.at} /> },
          { head: "Event", cell: (event) => <span class={`pill ${BAD.has(event.event) ? "failed" : event.event}`}>{event.event.replace("_", " ")}</span> },
          { head: "Reservation", cell: (event) => <a href={`#/reservations/${event.reservation}`} class="mono">{event.reservation.slice(0, 14)}</a> },
          { head: "Owner", cell: (event) => event.owner },
          { head: "Agent", cell: (event) => event.agent },
          { head: "", cell: (event) => event.text ?? (event.to != null ? `${event.from ?? "?"} → ${event.to}` : "") },
        ]} />
      </section>
    </>
  );
}
