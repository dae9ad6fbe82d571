// The shell: signing in, the navigation, and the page that the address names (#/now, #/calendar, ...).
import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Failure, ask, signedOut } from "./api";
import { Admin } from "./admin";
import { Audit } from "./audit";
import { Calendar } from "./calendar";
import type { MeDoc } from "./documents";
import { Events } from "./events";
import { SharedContext, useLive, useNow } from "./hooks";
import { Live } from "./live";
import { Now } from "./now";
import { Reservation, Reservations } from "./reservation";
import { hourMinute, millis, span } from "./units";
import { WhyNot } from "./why";
import "./app.css";

const PAGES = [
  ["now", "Now"],
  ["calendar", "Calendar"],
  ["reservations", "Reservations"],
  ["events", "Events"],
  ["audit", "Audit"],
  ["admin", "Admin"],
] as const;

/** The part of the address behind #, which a browser sends to nobody. */
function useHash(): string {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return hash;
}

function Page({ name, rest }: { name: string; rest: string }) {
  switch (name) {
    case "calendar":
      return <Calendar />;
    case "reservations":
      return rest ? <Reservation id={rest} key={rest} /> : <Reservations />;
    case "why":
      return <WhyNot wish={rest} key={rest} />;
    case "events":
      return <Events />;
    case "audit":
      return <Audit />;
    case "admin":
      return <Admin />;
    default:
      return <Now />;
  }
}

function Who({ me, zone, setZone }: { me: MeDoc; zone: string; setZone: (zone: string) => void }) {
  const now = useNow(1000);
  const live = useLive();
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zones = [...new Set([me.zone ?? "UTC", own, "UTC"])];
  const leave = async () => {
    await ask("/session", "DELETE").catch(() => {});
    location.reload();
  };
  return (
    <div class="who">
      <span class={live.state === "live" ? "active" : "away"} role="status">
        <span class="dot" />
        {live.state === "live" ? "live" : `no events since ${hourMinute(live.since, zone)}`}
      </span>
      <span>{hourMinute(now, zone)}</span>
      <select aria-label="Time zone" value={zone} onChange={(event) => setZone(event.currentTarget.value)}>
        {zones.map((name) => (
          <option value={name}>{name === me.zone ? `${name} (broker)` : name === own ? `${name} (here)` : name}</option>
        ))}
      </select>
      <span>
        <b>{me.name}</b>, {me.role}
      </span>
      <button type="button" onClick={leave}>Sign out</button>
    </div>
  );
}

function Shell({ me, got }: { me: MeDoc; got: number }) {
  const live = useMemo(() => new Live(), []);
  const [zone, setZone] = useState(localStorage.getItem("zone") ?? me.zone ?? "UTC");
  const ahead = millis(me.at) - got;
  const [name = "now", ...rest] = useHash().replace(/^#\/?/, "").split("/");
  const choose = (chosen: string) => {
    localStorage.setItem("zone", chosen);
    setZone(chosen);
  };
  useEffect(() => {
    const page = PAGES.find(([path]) => path === name)?.[1] ?? (name === "why" ? "Why not" : "Now");
    document.title = `${page} · Sluice`;
    scrollTo(0, 0);
  }, [name]);
  const skew = Math.abs(ahead) > 60_000;
  return (
    <SharedContext.Provider value={{ me, live, zone, ahead }}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        To the page
      </a>
      <header class="top">
        <a class="brand" href="#/now"><img src="/icon.svg" alt="" /> Sluice</a>
        <nav aria-label="Pages">
          <ul>
            {PAGES.map(([path, title]) => (
              <li><a href={`#/${path}`} aria-current={path === name || (path === "now" && !name) ? "page" : undefined}>{title}</a></li>
            ))}
          </ul>
        </nav>
        <Who me={me} zone={zone} setZone={choose} />
      </header>
      <main id="main" tabIndex={-1}>
        {skew && (
          <div class="note">
            <p>This computer's clock is {span(Math.abs(ahead))} {ahead > 0 ? "behind" : "ahead of"} the broker's. All times here are the broker's.</p>
          </div>
        )}
        <Page name={name} rest={rest.join("/")} />
      </main>
    </SharedContext.Provider>
  );
}

function Outside({ why }: { why: Failure | undefined }) {
  return (
    <main class="center sheet">
      <h1>Sluice</h1>
      {why && why.status !== 401 ? (
        <p><b>{why.title}.</b> {why.message}.</p>
      ) : (
        <p>{why?.message ?? "…"}</p>
      )}
      <p>On the broker's machine, or with your certificate anywhere, run</p>
      <p class="mono"><b>sluice web</b></p>
      <p>and open the link that it prints. The link is good once, for a minute; the browser then may do what you may, for at most 12 hours.</p>
      {why?.status === 0 && <button type="button" class="main" onClick={() => location.reload()}>Try again</button>}
    </main>
  );
}

function App() {
  const [me, setMe] = useState<{ me: MeDoc; got: number }>();
  const [why, setWhy] = useState<Failure>();
  useEffect(() => {
    signedOut.tell = (failure) => {
      setMe(undefined);
      setWhy(failure);
    };
    const begin = async () => {
      const ticket = /^#ticket=([0-9a-f]+)$/.exec(location.hash)?.[1];
      // The ticket leaves the address and the history at once.
      if (ticket) history.replaceState(null, "", "/#/now");
      try {
        if (ticket) await ask("/session", "POST", { ticket });
        const begun = Date.now();
        const said = await ask<MeDoc>("/v1/me");
        setMe({ me: said, got: (begun + Date.now()) / 2 });
      } catch (error) {
        setWhy(error instanceof Failure ? error : new Failure(0, "odd", "Odd", String(error)));
      }
    };
    void begin();
  }, []);
  return me ? <Shell {...me} /> : <Outside why={why} />;
}

const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(<App />, root);
}
