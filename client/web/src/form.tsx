// The form beside the calendar: two hosts, a rate or a volume by a deadline, as early as it fits; and other resources with it.
import { useState } from "preact/hooks";
import { Failure } from "./api";
import { Wrong } from "./bits";
import type { PartDoc, Reservation, ResourceRow, Wish } from "./documents";
import { useNow, useShared } from "./hooks";
import { Refused } from "./lane";
import { HOUR, amount, clock, fromField, instant, kindOf, partOf, toField, typed } from "./units";
import { book, enquire, type Answered } from "./wish";

type Kind = "rate" | "volume";

export function Form({ resources, booked }: { resources: ResourceRow[]; booked: () => void }) {
  const { zone } = useShared();
  const now = useNow(30_000);
  const [kind, setKind] = useState<Kind>("rate");
  const [fields, setFields] = useState<Record<string, string>>({ hours: "1", forward: "3mbit", volume: "1gb", earliest: "" });
  const [answer, setAnswer] = useState<{ wish: Wish; said: Answered }>();
  const [failure, setFailure] = useState<Failure>();
  const [made, setMade] = useState<Reservation>();
  const of = (name: string) => fields[name] ?? "";
  const set = (name: string) => (event: { currentTarget: HTMLInputElement | HTMLSelectElement }) => {
    setAnswer(undefined);
    setMade(undefined);
    setFields({ ...fields, [name]: event.currentTarget.value });
  };
  const start = of("start") || toField(now + 60_000, zone);
  const wish = (): Wish => {
    const begin = fromField(start, zone);
    const parts: PartDoc[] = [];
    const more = typed(of("more_amount"));
    if (of("more") && more) parts.push(partOf(of("more"), more));
    const both = { ...(of("label") ? { label: of("label") } : {}), ...(parts.length ? { parts } : {}) };
    const [forward, reverse] = [typed(of("forward")), typed(of("reverse"))];
    const path = of("from") || of("to") ? {
      from: of("from").trim(), to: of("to").trim(),
      ...(forward ? { forward: Math.round(forward) } : {}), ...(reverse ? { reverse: Math.round(reverse) } : {}),
    } : undefined;
    const whole = { ...both, ...(path ? { path } : {}) };
    if (kind === "volume") {
      const volume = { bytes: Math.round(typed(of("volume")) ?? 0), deadline: instant(fromField(of("deadline") || toField(now + 8 * HOUR, zone), zone)) };
      return { ...whole, volume };
    }
    const seconds = Math.max(1, (typed(of("hours")) ?? 1) * 3600);
    if (of("earliest")) return { ...whole, start: instant(begin), earliest: true, duration_s: seconds };
    return { ...whole, start: instant(Math.max(begin, now)), duration_s: seconds };
  };
  const run = async (deed: () => Promise<void>) => {
    try {
      setFailure(undefined);
      await deed();
    } catch (error) {
      setFailure(error instanceof Failure ? error : new Failure(0, "odd", "Odd", String(error)));
    }
  };
  const look = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      const asked = wish();
      setAnswer({ wish: asked, said: await enquire(asked) });
    });
  };
  const take = (wanted: Wish) => run(async () => {
    setMade(await book(wanted));
    setAnswer(undefined);
    booked();
  });
  const others = resources.filter((row) => kindOf(row.resource) !== "net");
  const time = (at: number) => clock(at, zone, now);
  const granted = answer?.said.accepted ? answer.said.enquiry : undefined;
  return (
    <section class="sheet noprint" aria-labelledby="form">
      <h2 id="form">Between two hosts</h2>
      <form onSubmit={look}>
        <div class="row">
          <label>From host<input required value={of("from")} onInput={set("from")} placeholder="10.0.0.1" autocomplete="off" /></label>
          <label>To host<input required value={of("to")} onInput={set("to")} placeholder="10.0.2.2" autocomplete="off" /></label>
        </div>
        <div class="row" role="group" aria-label="What is needed">
          <button type="button" aria-pressed={kind === "rate"} onClick={() => { setKind("rate"); setAnswer(undefined); }}>a rate</button>
          <button type="button" aria-pressed={kind === "volume"} onClick={() => { setKind("volume"); setAnswer(undefined); }}>a volume by a deadline</button>
        </div>
        <p />
        {kind === "rate" ? (
          <>
            <div class="row">
              <label>Rate there<input value={of("forward")} onInput={set("forward")} /></label>
              <label>Rate back<input value={of("reverse")} onInput={set("reverse")} placeholder="none" /></label>
            </div>
            <div class="row">
              <label>Start<input type="datetime-local" value={start} onChange={set("start")} /></label>
              <label>Hours<input value={of("hours")} onInput={set("hours")} inputMode="decimal" /></label>
            </div>
            <label>When it does not fit then
              <select value={of("earliest")} onChange={set("earliest")}><option value="">say so</option><option value="yes">take the earliest time that fits</option></select>
            </label>
          </>
        ) : (
          <div class="row">
            <label>Volume<input value={of("volume")} onInput={set("volume")} /></label>
            <label>Deadline<input type="datetime-local" value={of("deadline") || toField(now + 8 * HOUR, zone)} onChange={set("deadline")} /></label>
          </div>
        )}
        {others.length > 0 && (
          <div class="row">
            <label>And with it
              <select value={of("more")} onChange={set("more")}><option value="">nothing else</option>{others.map((row) => <option value={row.resource}>{row.resource}</option>)}</select>
            </label>
            <label>Of it<input value={of("more_amount")} onInput={set("more_amount")} placeholder="0.5" /></label>
          </div>
        )}
        <label>Label<input value={of("label")} onInput={set("label")} placeholder="for people" /></label>
        <div class="row">
          <button type="submit">Ask</button>
          <button type="button" class="main" disabled={!granted} onClick={() => answer && void take(answer.wish)}>Book</button>
        </div>
      </form>
      <div aria-live="polite">
        <p />
        {granted && (
          <div class="note good">
            <p><b>This would be granted.</b></p>
            <ul class="small">{granted.parts.map((part) => {
              const first = part.granted?.[0];
              const row = resources.find((row) => row.resource === part.resource);
              return <li>{part.resource}: {first ? `${amount(first.amount, row?.unit ?? "bit/s")} from ${time(Date.parse(first.start))}${first.end ? ` to ${time(Date.parse(first.end))}` : ""}` : "–"}</li>;
            })}</ul>
          </div>
        )}
        {answer && !answer.said.accepted && <Refused answer={answer.said} wish={answer.wish} time={time} take={take} />}
        <Wrong failure={failure} />
        {made && <div class="note good"><p><b>Booked.</b> <a href={`#/reservations/${made.id}`}>{made.label || "See the reservation"}</a></p></div>}
      </div>
    </section>
  );
}
