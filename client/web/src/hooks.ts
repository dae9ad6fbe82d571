// What pages share: who is signed in, the zone, the event stream; and data that is asked for again and again.
import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { Failure, ask } from "./api";
import type { MeDoc } from "./documents";
import type { Live } from "./live";
import { follow } from "./stream";

export type Shared = {
  me: MeDoc;
  live: Live;
  zone: string;
  /** The broker's time less ours, milliseconds. */
  ahead: number;
};

export const SharedContext = createContext<Shared | null>(null);

export function useShared(): Shared {
  const shared = useContext(SharedContext);
  if (!shared) throw new Error("a page outside the shell");
  return shared;
}

/** The broker's time, again each `every` milliseconds. */
export function useNow(every = 1000): number {
  const { ahead } = useShared();
  const [now, setNow] = useState(Date.now() + ahead);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() + ahead), every);
    return () => clearInterval(timer);
  }, [ahead, every]);
  return now;
}

export type Polled<T> = {
  data: T | undefined;
  /** Why there is no newer data. */
  failure: Failure | undefined;
  /** When the data came, our time. */
  at: number;
  again: () => void;
};

/** Data of the broker, asked for at intervals; what came last stays while the broker is away. */
export function usePoll<T>(path: string | null, every: number): Polled<T> {
  const [state, setState] = useState<{ path: string | null; data?: T; failure?: Failure; at: number }>({ path, at: 0 });
  const wake = useRef<() => void>(() => {});
  useEffect(() => {
    let gone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asking = false;
    const turn = async () => {
      if (path === null || gone || asking) return;
      clearTimeout(timer);
      asking = true;
      try {
        const data = await ask<T>(path);
        if (!gone) setState({ path, data, at: Date.now() });
      } catch (error) {
        const failure = error instanceof Failure ? error : new Failure(0, "odd", "Odd", String(error));
        if (!gone) {
          setState((old) => {
            const kept = old.path === path && old.data !== undefined ? { data: old.data } : {};
            return { path, ...kept, failure, at: old.at };
          });
        }
      }
      asking = false;
      // A page that nobody sees asks nothing.
      if (!gone && every > 0) timer = setTimeout(() => (document.hidden ? wait() : turn()), every);
    };
    const wait = () => {
      timer = setTimeout(() => (document.hidden ? wait() : turn()), every);
    };
    const seen = () => {
      if (!document.hidden) void turn();
    };
    wake.current = () => void turn();
    document.addEventListener("visibilitychange", seen);
    void turn();
    return () => {
      gone = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [path, every]);
  const again = useCallback(() => wake.current(), []);
  const current = state.path === path;
  return { data: current ? state.data : undefined, failure: current ? state.failure : undefined, at: state.at, again };
}

/** The events; the caller is drawn again after each, at most every 200 ms. */
export function useLive(): Live {
  const { live } = useShared();
  const [, turn] = useState(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const heard = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        turn((n) => n + 1);
      }, 200);
    };
    const end = live.listen(heard);
    return () => {
      end();
      clearTimeout(timer);
    };
  }, [live]);
  return live;
}

/** Calls `deed` soon after events came: what they are about has changed. */
export function useOnEvents(deed: () => void): void {
  const { live } = useShared();
  const latest = useRef(deed);
  latest.current = deed;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const end = live.listen(() => {
      timer ??= setTimeout(() => {
        timer = undefined;
        latest.current();
      }, 250);
    });
    return () => {
      end();
      clearTimeout(timer);
    };
  }, [live]);
}

/** The newest event of a stream, while the page is seen; it begins anew when it breaks. */
export function useStream<T>(path: string, kind: string): T | undefined {
  const [newest, setNewest] = useState<{ path: string; data: T }>();
  useEffect(() => {
    let stop = new AbortController();
    let gone = false;
    const run = async () => {
      // Each stream is a connection, of which a browser has few: a page that nobody sees has none.
      while (!gone && !document.hidden) {
        const signal = stop.signal;
        await follow(path, {}, signal, () => {}, (of, data) => {
          if (of === kind && !gone) setNewest({ path, data: JSON.parse(data) as T });
        }).catch(() => {});
        if (signal.aborted) return;
        await new Promise((done) => setTimeout(done, 2000));
      }
    };
    const seen = () => {
      stop.abort();
      stop = new AbortController();
      void run();
    };
    document.addEventListener("visibilitychange", seen);
    void run();
    return () => {
      gone = true;
      stop.abort();
      document.removeEventListener("visibilitychange", seen);
    };
  }, [path, kind]);
  return newest?.path === path ? newest.data : undefined;
}
