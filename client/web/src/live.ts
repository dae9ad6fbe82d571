// The broker's events in one stream for all tabs of a browser: one tab leads, which has the stream and tells the others.
// Whoever leads after it goes on after the last event that any of them has seen.
import type { Event } from "./documents";
import { follow } from "./stream";

/** The most events that a tab keeps. */
const KEPT = 500;
/** The pause before the next attempt, milliseconds; it doubles up to the second. */
const PAUSES = [500, 10_000] as const;

/** A fixed number of items: the oldest make way. */
export class Ring<T> {
  private readonly items: T[] = [];
  private next = 0;
  constructor(private readonly most: number) {}
  push(item: T): void {
    if (this.items.length < this.most) this.items.push(item);
    else this.items[this.next] = item;
    this.next = (this.next + 1) % this.most;
  }
  /** The oldest first. */
  all(): T[] {
    return this.items.length < this.most ? [...this.items] : [...this.items.slice(this.next), ...this.items.slice(0, this.next)];
  }
}

export type LiveState = "connecting" | "live" | "away";

type Message =
  | { what: "event"; id: string; event: Event }
  | { what: "lost"; id: string; agent: string }
  | { what: "state"; id: string; state: LiveState; since: number };

type Listener = () => void;

export class Live {
  readonly events = new Ring<Event>(KEPT);
  state: LiveState = "connecting";
  since = Date.now();
  /** Agents of which events are missing, as they are no longer kept. */
  readonly lost = new Set<string>();
  private last = "";
  private readonly listeners = new Set<Listener>();
  private readonly channel = new BroadcastChannel("sluice-events");
  private readonly stop = new AbortController();

  constructor() {
    this.channel.onmessage = (message: MessageEvent<Message>) => this.hear(message.data);
    const lead = () => this.lead();
    // Without locks (an address without TLS that is not the loopback) each tab has a stream of its own.
    if (navigator.locks) {
      navigator.locks.request("sluice-events", { signal: this.stop.signal }, lead).catch(() => {});
    } else {
      void lead();
    }
  }

  /** Calls `listener` after each change; the answer ends that. */
  listen(listener: Listener): Listener {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  close(): void {
    this.stop.abort();
    this.channel.close();
  }

  private tell(message: Message): void {
    this.hear(message);
    this.channel.postMessage(message);
  }

  private hear(message: Message): void {
    if (message.id) this.last = message.id;
    if (message.what === "event") this.events.push(message.event);
    if (message.what === "lost") this.lost.add(message.agent);
    if (message.what === "state" && message.state !== this.state) {
      this.state = message.state;
      this.since = message.since;
    }
    for (const listener of this.listeners) listener();
  }

  /** Has the stream until the tab goes. */
  private async lead(): Promise<void> {
    let pause: number = PAUSES[0];
    while (!this.stop.signal.aborted) {
      const begun = Date.now();
      try {
        await this.follow();
      } catch {
        // It broke; the next attempt goes on after the last event.
      }
      if (this.stop.signal.aborted) return;
      this.say("away");
      pause = Date.now() - begun > PAUSES[1] ? PAUSES[0] : Math.min(pause * 2, PAUSES[1]);
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  private say(state: LiveState): void {
    this.tell({ what: "state", id: "", state, since: state === this.state ? this.since : Date.now() });
  }

  private follow(): Promise<void> {
    // The first time with what is kept, so that a page that opens is not empty.
    const headers = { "Last-Event-ID": this.last || "0" };
    return follow("/v1/events", headers, this.stop.signal, () => this.say("live"), (kind, data, id) => {
      if (kind === "begins") this.last = id || this.last;
      else if (kind === "lost") this.tell({ what: "lost", id, agent: (JSON.parse(data) as { agent: string }).agent });
      else this.tell({ what: "event", id, event: JSON.parse(data) as Event });
    });
  }
}
