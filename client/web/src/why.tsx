// Why not: a refusal as a picture. The address holds the wish, so that whoever gets the link asks the same, by their own
// rights and at their own time.
import { useEffect, useState } from "preact/hooks";
import { Failure, query } from "./api";
import { At, Head, Table, Trouble, Wrong } from "./bits";
import type { RefusalDoc, Reservation, Resources, Wish } from "./documents";
import { useNow, usePoll, useShared } from "./hooks";
import { Refused } from "./lane";
import { Axis, x } from "./scale";
import { HOUR, amount, clock, instant, millis, span } from "./units";
import { book, enquire, inWords, unitOf, unpack, type Answered } from "./wish";

export function WhyNot({ wish: text }: { wish: string }) {
  const { zone } = useShared();
  const now = useNow(10_000);
  const wish = unpack(text);
  const [said, setSaid] = useState<{ answer: Answered; at: number }>();
  const [failure, setFailure] = useState<Failure>();
  const [made, setMade] = useState<Reservation>();
  const look = async () => {
    if (!wish) return;
    try {
      setSaid({ answer: await enquire(wish), at: now });
      setFailure(undefined);
    } catch (error) {
      if (error instanceof Failure) setFailure(error);
    }
  };
  useEffect(() => void look(), [text]);
  const take = async (wanted: Wish) => {
    try {
      setMade(await book(wanted));
    } catch (error) {
      if (error instanceof Failure) setFailure(error);
    }
  };
  if (!wish) return <><Head title="Why not?" /><div class="note bad"><p>This link is cut short or changed: it holds no request.</p></div></>;
  const refused = said && !said.answer.accepted ? said.answer : undefined;
  const time = (at: number) => clock(at, zone, now);
  return (
    <>
      <Head title="Why not?" more={<><button type="button" onClick={() => void look()}>Ask again</button><button type="button" onClick={() => void navigator.clipboard?.writeText(location.href)}>Copy the link</button></>}>
        {inShort(wish, time)}
      </Head>
      <Wrong failure={failure} />
      {said?.answer.accepted && <div class="note good"><p><b>It would be granted now.</b> <button type="button" class="main" onClick={() => void take(wish)}>Book</button></p></div>}
      {made && <div class="note good"><p><b>Booked.</b> <a href={`#/reservations/${made.id}`}>See the reservation</a></p></div>}
      {refused && (
        <>
          <section class="sheet" aria-labelledby="picture">
            <h2 id="picture">Where and when</h2>
            {refused.refusal?.resource ? <Picture refusal={refused.refusal} wish={wish} now={now} zone={zone} /> : <p>{refused.message}</p>}
          </section>
          <section class="sheet" aria-labelledby="words">
            <h2 id="words">In words</h2>
            {refused.refusal && <Words refusal={refused.refusal} />}
            <Refused answer={refused} wish={wish} time={time} take={take} here />
            <p class="small soft">Asked at {time(said?.at ?? now)}. Whoever opens this link asks the same anew, as themselves: the answer may have changed by then.</p>
          </section>
        </>
      )}
    </>
  );
}

function inShort(wish: Wish, time: (at: number) => string): string {
  const what = wish.path
    ? `${wish.path.from} → ${wish.path.to}${wish.path.forward ? `, ${amount(wish.path.forward, "bit/s")} there` : ""}${wish.path.reverse ? `, ${amount(wish.path.reverse, "bit/s")} back` : ""}`
    : (wish.parts ?? []).map((part) => `${part.resource} ${amount(part.rate ?? part.cores ?? part.bytes_per_s ?? part.count, unitOf(part.resource))}`).join(", ");
  const end = wish.end ? ` to ${time(millis(wish.end))}` : wish.duration_s ? ` for ${span(wish.duration_s * 1000)}` : "";
  return `${what}${wish.start ? `, from ${time(millis(wish.start))}` : ""}${end}`;
}

function Words({ refusal }: { refusal: RefusalDoc }) {
  const unit = unitOf(refusal.resource ?? "");
  return (
    <dl class="numbers">
      <div><dt>Where</dt><dd>{refusal.resource ?? "–"}</dd></div>
      <div><dt>When</dt><dd><At at={refusal.start} />{refusal.end ? <> to <At at={refusal.end} /></> : null}</dd></div>
      <div class="asked"><dt>Asked</dt><dd>{amount(refusal.asked, unit)}</dd></div>
      <div class="admitted"><dt>Free</dt><dd>{amount(refusal.free, unit)}</dd></div>
      <div><dt>Reason</dt><dd>{refusal.reason.replaceAll("_", " ")}</dd></div>
      {refusal.rule && <div><dt>Rule</dt><dd>{refusal.rule}</dd></div>}
    </dl>
  );
}

function Picture({ refusal, wish, now, zone }: { refusal: RefusalDoc; wish: Wish; now: number; zone: string }) {
  const start = millis(wish.start ?? refusal.start ?? instant(now));
  const wanted = wish.end ? millis(wish.end) : start + (wish.duration_s ?? 3600) * 1000;
  const end = Number.isFinite(wanted) ? wanted : start + 24 * HOUR;
  const ghosts = (refusal.alternatives ?? []).flatMap((other) => (other.parts[0]?.[0] ? [{ other, step: other.parts[0][0] }] : []));
  const far = Math.max(end, ...ghosts.map(({ step }) => millis(step.end)).filter(Number.isFinite));
  const [from, to] = [start - (far - start) * 0.15, far + (far - start) * 0.15];
  const resources = usePoll<Resources>(query("/v1/resources", { from: instant(Math.max(from, 0)), to: instant(to) }), 10_000);
  const row = resources.data?.resources.find((row) => row.resource === refusal.resource);
  const scale = { from, to, width: 900 };
  const [top, tall] = [34, 190];
  const asked = refusal.asked ?? 0;
  const most = Math.max(row?.capacity ?? 0, asked) * 1.1 || 1;
  const y = (value: number) => top + tall * (1 - value / most);
  const time = (at: number) => clock(at, zone, now);
  const unit = row?.unit ?? unitOf(refusal.resource ?? "");
  const steps = row?.timeline ?? [];
  return (
    <>
      <Trouble polled={resources} what="Resources" />
      <p><b>{refusal.resource}</b>: {amount(refusal.free, unit)} free where {amount(asked, unit)} is asked{refusal.start ? <>, at <At at={refusal.start} /></> : null}.</p>
      <div class="scroll" tabIndex={0} role="region" aria-label="The refusal as a picture">
        <svg viewBox={`0 0 ${scale.width} ${top + tall + 8}`} width="100%" role="img" aria-label={`${refusal.resource}: ${amount(refusal.free, unit)} free, ${amount(asked, unit)} asked; the table below says the same`}>
          <Axis scale={scale} zone={zone} now={now} height={top + tall} />
          {steps.map((step) => {
            const [a, b] = [x(scale, millis(step.start)), x(scale, millis(step.end))];
            return <rect x={a} width={Math.max(0, b - a)} y={y(step.amount)} height={top + tall - y(step.amount)} class="free" fill="var(--c0)" fill-opacity=".35" stroke="var(--c0)" stroke-width="1"><title>{`${amount(step.amount, unit)} free, ${time(millis(step.start))}–${time(millis(step.end))}`}</title></rect>;
          })}
          <rect x={x(scale, start)} width={x(scale, end) - x(scale, start)} y={y(asked)} height={top + tall - y(asked)} fill="var(--broken)" opacity=".22" stroke="var(--broken)" stroke-width="2" />
          <text class="name" x={x(scale, start) + 5} y={y(asked) - 5}>asked: {amount(asked, unit)}</text>
          {refusal.start && <rect x={x(scale, millis(refusal.start))} width={Math.max(4, x(scale, refusal.end ? millis(refusal.end) : end) - x(scale, millis(refusal.start)))} y={y(asked)} height={Math.max(2, y(refusal.free ?? 0) - y(asked))} fill="var(--broken)" opacity=".55"><title>not free here</title></rect>}
          {ghosts.map(({ other, step }) => <rect x={x(scale, millis(step.start))} width={Math.max(4, x(scale, millis(step.end)) - x(scale, millis(step.start)))} y={y(step.amount)} height={top + tall - y(step.amount)} fill="var(--ghost)" fill-opacity=".12" stroke="var(--ghost)" stroke-width="2" stroke-dasharray="6 4"><title>{inWords(other, wish, time)}</title></rect>)}
        </svg>
      </div>
      <p class="key"><span><i style={{ background: "var(--c0)", opacity: 0.5 }} />free</span><span><i style={{ background: "var(--broken)" }} />asked, and not free</span><span><i style={{ border: "2px dashed var(--ghost)" }} />would be granted</span></p>
      <Table folded caption="The picture as a table" rows={steps} columns={[
        { head: "From", cell: (step) => <At at={step.start} /> },
        { head: "To", cell: (step) => <At at={step.end ?? "forever"} /> },
        { head: "Free", number: true, cell: (step) => amount(step.amount, unit) },
        { head: "Asked", number: true, cell: () => amount(asked, unit) },
      ]} />
    </>
  );
}
