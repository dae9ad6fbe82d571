// Generated from docs/openapi.json by client/web/types.mjs: change those, not this file.

/** A domain's acceptance of its leg, as its broker signs it. */
export type AcceptanceDoc = {
  domain: string;
  entry?: string | null;
  exit?: string | null;
  expires: Instant;
  forward: number;
  next?: string | null;
  reservation: string;
  reverse: number;
  sla?: string | null;
  transaction: string;
  windows: WindowDoc[];
};

/** Acceptances that a broker keeps. */
export type Acceptances = {
  acceptances: KeptAcceptance[];
};

/** All that a domain publishes of itself. This document is the text that its broker signs. */
export type AdvertisementDoc = {
  domain: string;
  issued: Instant;
  networks: string[];
  number: number;
  until: Instant;
  ways: DomainWayRow[];
};

/** A page of one agent's audit, oldest entry first. */
export type AgentAudit = {
  agent: string;
  entries: AuditRow[];
  last: number;
  next: number;
};

/** The machine of an agent. */
export type AgentDoctor = DoctorDoc & {
  agent: string;
};

/** The interfaces of one agent. */
export type AgentInterfaces = {
  agent: string;
  interfaces: InterfaceRow[];
  notes: string[];
  signalled: number;
};

/** An agent. */
export type AgentRow = {
  agent: string;
  away?: string | null;
  node?: string | null;
  uptime_ms?: number | null;
  version?: string | null;
};

/** All agents. */
export type Agents = {
  agents: AgentRow[];
};

/** A request near the original one that would be accepted. */
export type AlternativeDoc = {
  parts: StepDoc[][];
  resources?: string[];
  sort: AlternativeWord;
};

/** The difference of an alternative from the original request. */
export type AlternativeWord = "later" | "slower" | "shorter" | "other_path";

/** A new amount of a part, in one of the units of [`PartDoc`], which must be the part's. */
export type AmountDoc = {
  bytes_per_s?: number | null;
  cores?: number | null;
  count?: number | null;
  part?: number;
  rate?: number | null;
};

/** The amounts and times of a request for a reservation, or for a change of one. */
export type AskedDoc = {
  end?: null | Instant;
  parts: AskedPartDoc[];
  seconds?: number | null;
  start: Instant;
  volume?: number | null;
  windows?: number | null;
};

/** An amount of one resource that was asked for. */
export type AskedPartDoc = {
  amount?: number | null;
  least?: number | null;
  resource: string;
  unit: string;
};

/** A decision. */
export type AuditRow = {
  asked?: null | AskedDoc;
  at: Instant;
  handle?: string | null;
  hash: string;
  number: number;
  outcome: string;
  rules: string[];
  verb: string;
  who: string;
};

/** Pages of the agents' audits. */
export type Audits = {
  agents: AgentAudit[];
  away: string[];
};

/** The terms on which a background part shares. */
export type BackgroundDoc = {
  floor?: number;
  weight?: number;
};

/** A binding. Give either `flow` (for a reservation between two hosts) or `part` and `binding`. */
export type BindWish = {
  binding?: null | BindingDoc;
  flow?: null | Ports;
  part?: number | null;
};

/** The flow, process or control group that a part serves. */
export type BindingDoc = {
  flow: FlowDoc;
} | {
  pid: number;
} | {
  tid: number;
} | {
  cgroup: string;
};

/** An event of a reservation. */
export type BookEvent = {
  at: Instant;
  binding?: null | BindingDoc;
  event: EventWord;
  from?: number | null;
  group?: string;
  handle: string;
  owner: string;
  part?: number | null;
  seq: number;
  text?: string | null;
  to?: number | null;
};

/** A link to a neighbouring domain. */
export type BorderRow = {
  link: string;
  neighbour: string;
};

/** The rights of a caller over reservations. */
export type CallerRights = "owner" | "auditor" | "operator" | "broker";

/** A certificate. */
export type CertificateRow = {
  name: string;
  of: string;
  until: Instant;
};

/** A change of a reservation; a field that is left out stays as it was. */
export type Change = {
  amounts?: AmountDoc[];
  end?: null | Instant;
  forward?: number | null;
  label?: string | null;
  reverse?: number | null;
  start?: null | Instant;
  without?: WindowDoc[];
};

/** A class, read from the plane. */
export type ClassRow = {
  bytes: number;
  ceil_wire_bps: number;
  class: string;
  drops: number;
  name: string;
  packets: number;
  rate_wire_bps: number;
};

/** The packets of a colour. */
export type ColorDoc = {
  bytes: number;
  packets: number;
};

/** The packets that a meter coloured of a part, since its rule was made. */
export type ColorsDoc = {
  green: ColorDoc;
  red: ColorDoc;
  yellow: ColorDoc;
};

/** The direction of a message or of packets at an interface. */
export type Direction = "in" | "out";

/** The features that a machine has and lacks. */
export type DoctorDoc = {
  can_reserve: boolean;
  findings: FindingRow[];
  kernel: string;
  warnings: DoctorWarning[];
};

/** Something that should be changed on a machine. */
export type DoctorWarning = {
  of: string;
  text: string;
};

/** The features that the machines of agents have and lack, as `sluice doctor` finds them there; and certificates. */
export type Doctors = {
  agents: AgentDoctor[];
  away: string[];
  certificates: CertificateRow[];
};

/** A domain on a path. */
export type DomainHopRow = {
  domain: string;
  from?: null | BorderRow;
  to?: null | BorderRow;
};

/** A path over domains between two hosts. */
export type DomainPathRow = {
  cost: number;
  free?: number | null;
  hops: DomainHopRow[];
};

/** A way through a domain: packets come in at one end and leave by the other. */
export type DomainWayRow = {
  cost: number;
  free: FreeRow[];
  from?: null | BorderRow;
  rate: number;
  to?: null | BorderRow;
};

/** All that a broker knows of domains. */
export type DomainsDoc = {
  domains?: KnownDomainRow[];
  neighbours?: NeighbourRow[];
  own?: string | null;
  paths?: DomainPathRow[] | null;
  statements?: StatementDoc[];
  unpublished?: string | null;
};

/** Two hosts. */
export type Ends = {
  forward?: number | null;
  from: string;
  reverse?: number | null;
  to: string;
};

/** How far the enforcement of a part is. */
export type EnforcementWord = "idle" | "unbound" | "pending" | "in_force" | "failed";

/** A part of an enquiry. */
export type EnquiredPart = {
  free: number;
  granted?: StepDoc[];
  kind: GuaranteeWord;
  resource: string;
  way?: null | PathWord;
};

/** The result of an enquiry. */
export type Enquiry = {
  accepted: boolean;
  forward?: number | null;
  parts: EnquiredPart[];
  refusal?: null | RefusalDoc;
  reverse?: number | null;
};

/** A start of a coordinator. */
export type EpochDoc = {
  decisions: number;
  nonce: number;
  number: number;
};

/** An event of a reservation. */
export type Event = BookEvent & {
  agent: string;
  reservation: string;
  way?: string | null;
};

/** The kinds of events of a reservation. */
export type EventWord = "created" | "committed" | "modified" | "bound" | "opened" | "paused" | "ends_soon" | "ended" | "cancelled" | "expired" | "share" | "failing" | "in_force" | "short" | "contradicted";

/** Events of a reservation. */
export type Events = {
  events: Event[];
};

/** A feature of a kernel. */
export type FindingRow = {
  area: string;
  name: string;
  text: string;
  there: boolean;
};

/** A five-tuple; a field that is left out matches any value. */
export type FlowDoc = {
  dst?: string | null;
  dst_port?: number | null;
  protocol?: number | null;
  src?: string | null;
  src_port?: number | null;
};

/** An amount that is free from a moment on, until the next row; the last one goes on. */
export type FreeRow = {
  rate: number;
  start: Instant;
};

/** The strength of a guarantee. */
export type GuaranteeWord = "reserved" | "cap";

/** An interface on a path. */
export type Hop = {
  agent: string;
  interface: string;
  resource?: string | null;
};

/** The state of a reservation in the plane. */
export type InstalledState = "pending" | "installed" | "adopted" | "missing";

/** RFC 3339, as in 2026-11-21T14:00:00Z; an end that never comes is `forever`. */
export type Instant = string;

/** An interface. */
export type InterfaceRow = {
  addresses: string[];
  booked_wire_bps?: number;
  classes: ClassRow[];
  free_wire_bps: number;
  index: number;
  mtu: number;
  name: string;
  plane?: string | null;
  rate_wire_bps?: number | null;
  reserved_wire_bps: number;
  role?: null | NeighbourRole;
  rsvp: boolean;
  services: string[];
  slots: number;
};

/** The interfaces of agents, with their classes and counters. */
export type Interfaces = {
  agents: AgentInterfaces[];
  at: Instant;
  away: string[];
};

/** An acceptance that is kept with a reservation. */
export type KeptAcceptance = {
  accepted: AcceptanceDoc;
  at: Instant;
  over: boolean;
  owner: string;
  reservation: string;
  statement: StatementDoc;
};

/** A domain as it is known. */
export type KnownDomainRow = {
  advertisement: AdvertisementDoc;
  learnt_from?: string | null;
};

/** A question for a vote: a broker asks the broker of a neighbouring domain to promise its leg. */
export type LegAskDoc = {
  border: string;
  change: LegChange;
  epoch: EpochDoc;
  floor: number;
  groups?: string[];
  leg: LegDoc;
  member: number;
  origin: string;
  owner: string;
  reservation: string;
  serial: number;
  token?: string | null;
  transaction: string;
  tree?: null | TreeLegDoc;
  via: string[];
};

/** The kinds of change of a leg. */
export type LegChange = "create" | "modify" | "bind";

/** The answer to a decision: it is on the disk of the domain, which drives it to its end. */
export type LegDecidedDoc = {
  transaction: string;
};

/** A decision of the broker that asked for a leg. */
export type LegDecisionDoc = {
  commit?: number | null;
  epoch: EpochDoc;
  member: number;
};

/** A leg as it is to be after the change. */
export type LegDoc = {
  flow?: null | Ports;
  forward: number;
  from: string;
  label?: string;
  packet_bytes?: number | null;
  reverse: number;
  rtt_ms?: number | null;
  to: string;
  windows: WindowDoc[];
};

/** A promise of a leg: it ends by a decision only, or when its windows have passed. */
export type LegPromiseDoc = {
  acceptances: StatementDoc[];
};

/** A leg in a domain, as it has accepted it by its signature. */
export type LegRow = {
  domain: string;
  entry?: string | null;
  exit?: string | null;
  forward: number;
  reservation: string;
  reverse: number;
  sla?: string | null;
};

/** A leg as the domain that has it shows it to the domain that asked for it. */
export type LegStateDoc = {
  away?: string[];
  state: string;
};

/** The networks on which agents are neighbours. */
export type MapDoc = {
  agents: string[];
  away: string[];
  networks: NetworkRow[];
};

/** The policy's answer about a caller. */
export type MayDoc = {
  groups: string[];
  parts: MayRow[];
  role: CallerRights;
  who: string;
};

/** The policy's answer about a part. */
export type MayRow = {
  above?: string[];
  allowed: boolean;
  resource: string;
  rule: string;
  way?: null | Direction;
  why?: string | null;
};

/** The caller, as the broker knows it, and the broker's clock. */
export type MeDoc = {
  at: Instant;
  broker: string;
  groups: string[];
  name: string;
  role: CallerRights;
  seat: string;
  until?: null | Instant;
  version: string;
  zone?: string | null;
};

/** The measured use of a part, in its unit: a mean over the last whole interval. */
export type MeasuredDoc = {
  amount: number;
  interval_s: number;
  refused?: number | null;
  unreserved?: number | null;
};

/** A meter, which colours the packets of a background part in the place of dropping what exceeds it: green is AF11, yellow */
export type MeterDoc = {
  aware?: boolean;
  burst_bytes?: number | null;
  excess?: number | null;
  kind: MeterWord;
  mark_red?: boolean;
  peak?: number | null;
  second_burst_bytes?: number | null;
};

/** The kinds of meters. */
export type MeterWord = "srtcm" | "trtcm" | "rfc4115";

/** The kind of neighbours behind an interface. */
export type NeighbourRole = "edge" | "core" | "peer";

/** A neighbour's broker. */
export type NeighbourRow = {
  answered?: null | Instant;
  away?: string | null;
  neighbour: string;
  refused?: number;
  why?: string | null;
};

/** An interface on a network. */
export type NetworkEnd = {
  address: string;
  agent: string;
  interface: string;
  rate_wire_bps?: number | null;
  resource?: string | null;
};

/** A network, and the interfaces of agents on it. */
export type NetworkRow = {
  ends: NetworkEnd[];
  network: string;
};

/** A part of a reservation. */
export type Part = PartRow & {
  agent: string;
  handle: string;
  way?: null | PathWord;
};

/** An amount of one resource, in exactly one of `rate`, `cores`, `bytes_per_s` and `count`. */
export type PartDoc = {
  at_least?: number | null;
  background?: null | BackgroundDoc;
  binding?: null | BindingDoc;
  bytes_per_s?: number | null;
  cores?: number | null;
  count?: number | null;
  meter?: null | MeterDoc;
  packet_bytes?: number | null;
  rate?: number | null;
  resource: string;
  rtt_ms?: number | null;
};

/** One part of a reservation, in its unit. */
export type PartReading = {
  asked: number;
  enforced: EnforcementWord;
  installed: number;
  measured?: number | null;
  now: number;
  resource: string;
  unit: string;
  way?: null | PathWord;
};

/** A part of a reservation. */
export type PartRow = {
  asked?: number;
  background?: null | BackgroundDoc;
  binding?: null | BindingDoc;
  colors?: null | ColorsDoc;
  enforced: EnforcementWord;
  fault?: string | null;
  installed?: number;
  kind?: null | GuaranteeWord;
  means?: string | null;
  measured?: null | MeasuredDoc;
  meter?: null | MeterDoc;
  now: number;
  packet_bytes: number;
  resource: string;
  rtt_ms: number;
  steps: StepDoc[];
  unit: string;
};

/** A path. */
export type PathRow = {
  hops: Hop[];
  rate_wire_bps?: number | null;
  routed?: boolean;
};

/** A path between two hosts. */
export type PathWish = {
  background?: null | BackgroundDoc;
  flow?: null | Ports;
  forward?: number | null;
  forward_at_least?: number | null;
  from: string;
  packet_bytes?: number | null;
  reverse?: number | null;
  reverse_at_least?: number | null;
  rtt_ms?: number | null;
  to: string;
  tree?: boolean;
};

/** The direction of a part of a path. */
export type PathWord = "forward" | "reverse";

/** Paths between two hosts, the best first. */
export type Paths = {
  away?: string[];
  forward: PathRow[];
  reverse: PathRow[];
};

/** A filter of packets between the two hosts. Packets back have the ports swapped. */
export type Ports = {
  from_port?: number | null;
  protocol?: number | null;
  to_port?: number | null;
};

/** The reason why a request was not carried out. The state is unchanged unless the problem says otherwise. */
export type Problem = {
  detail: string;
  known?: null | EpochDoc;
  refusal?: null | RefusalDoc;
  status: number;
  title: string;
  type: string;
};

/** The newest reading of a figure that an application reports. */
export type ReadingRow = {
  at: Instant;
  name: string;
  owner: string;
  unit: string;
  value: number;
};

/** A reading, as an application reports it. */
export type ReadingWish = {
  unit?: string;
  value: number;
};

/** The figures that applications report of themselves. */
export type Readings = {
  readings: ReadingRow[];
};

/** A refusal, with alternatives that would be accepted. */
export type RefusalDoc = {
  alternatives?: AlternativeDoc[];
  asked?: number | null;
  end?: null | Instant;
  free?: number | null;
  known?: null | EpochDoc;
  message: string;
  part?: number | null;
  reason: string;
  resource?: string | null;
  rule?: string | null;
  start?: null | Instant;
};

/** A reservation. */
export type Reservation = {
  above?: string | null;
  away?: string[];
  created: Instant;
  hold_until?: null | Instant;
  id: string;
  label: string;
  legs?: LegRow[];
  missing?: string[];
  notify_s?: number | null;
  owner: string;
  parts: Part[];
  path?: null | Ends;
  state: ReservationWord;
};

/** A reading of a reservation: asked, admitted, installed, measured. */
export type ReservationReading = {
  at: Instant;
  parts: PartReading[];
  state: ReservationWord;
};

/** The state of a reservation over all of its agents. */
export type ReservationWord = "held" | "booked" | "active" | "suspended" | "ended" | "cancelled" | "expired" | "preparing" | "committing" | "aborting" | "broken";

/** A list of reservations. */
export type Reservations = {
  away?: string[];
  more: boolean;
  next?: string | null;
  reservations: Reservation[];
};

/** A resource. */
export type ResourceRow = {
  background: number;
  background_now?: number;
  capacity: number;
  free: number;
  kind: GuaranteeWord;
  missing?: number | null;
  missing_from?: null | Instant;
  more?: boolean;
  next?: boolean;
  reservations: number;
  resource: string;
  timeline?: StepDoc[];
  unit: string;
};

/** Resources of all agents. */
export type Resources = {
  away?: string[];
  resources: ResourceRow[];
};

/** The signalled reservations of agents: those that RSVP or Boomerang asked for. */
export type SignalledReservations = {
  at: Instant;
  away: string[];
  more: boolean;
  reservations: SignalledRow[];
};

/** A signalled reservation at one interface of one agent. */
export type SignalledRow = {
  admitted_wire_bps?: number | null;
  agent: string;
  asked_bps: number;
  expires_in_ms?: number | null;
  from: string;
  installed_bps?: number | null;
  measured_bps?: number | null;
  protocol: number;
  resource?: string | null;
  service: string;
  state?: null | InstalledState;
  style?: string | null;
  to: string;
};

/** A signed text, with the certificates of who signed it: anybody who trusts their authority can check it. */
export type StatementDoc = {
  chain: string[];
  signature: string;
  text: string;
};

/** An amount in a window. */
export type StepDoc = {
  amount: number;
  end?: null | Instant;
  start: Instant;
};

/** A ticket, by which one browser may sign in once. */
export type TicketDoc = {
  address: string;
  expires: Instant;
};

/** The outcome of a transaction over several agents, for an agent that has promised a part of it. */
export type TransactionDoc = {
  commit?: number | null;
  coordinator: string;
  epoch: EpochDoc;
  outcome: string;
  transaction: string;
};

/** The place of a leg in a tree: the first broker asks each domain itself, the last one first. */
export type TreeLegDoc = {
  after?: StatementDoc[];
  entry: string;
};

/** A volume of data and its deadline. */
export type VolumeDoc = {
  bytes: number;
  deadline: Instant;
};

/** A webhook. */
export type Webhook = {
  delivered: string;
  events?: EventWord[];
  failures: number;
  id: string;
  last_failure?: string | null;
  reservation?: string | null;
  secret?: string | null;
  url: string;
};

/** A request for a webhook. */
export type WebhookWish = {
  events?: EventWord[];
  reservation?: string | null;
  secret?: string | null;
  url: string;
};

/** A list of webhooks. */
export type Webhooks = {
  webhooks: Webhook[];
};

/** A window of a recurrence. */
export type WindowDoc = {
  end: Instant;
  start: Instant;
};

/** A request for a path between two hosts, for single resources, or for both, and a time. All of it or */
export type Wish = {
  duration_s?: number | null;
  earliest?: boolean;
  end?: null | Instant;
  hold_s?: number | null;
  label?: string;
  may_fail?: number[];
  notify_s?: number | null;
  parts?: PartDoc[];
  path?: null | PathWish;
  start?: null | Instant;
  volume?: null | VolumeDoc;
  windows?: WindowDoc[];
};
