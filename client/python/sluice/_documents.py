"""The broker's documents as Python's classes.

Generated from docs/openapi.json by client/python/generate.py: change those, not this file. A newer broker may send more
fields, which are left out here, and other words than a ``Literal`` lists, which are kept as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, List, Mapping, Optional

from ._shapes import (
    AlternativeWord,
    Background,
    Binding,
    Border,
    Colors,
    Ends,
    EnforcementWord,
    EventWord,
    GuaranteeWord,
    KnownDomain,
    Leg,
    Measured,
    Meter,
    Neighbour,
    PathWord,
    Refusal,
    ReservationWord,
    Statement,
)
from ._units import when


@dataclass(frozen=True)
class Step:
    """An amount in a window."""

    #: The start of the window.
    start: Optional[datetime]
    #: The end of the window; None: open.
    end: Optional[datetime]
    #: The amount.
    amount: float

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Step":
        """Reads a broker's document."""
        return Step(
            start=when(doc["start"]),
            end=when(doc.get("end")),
            amount=doc["amount"],
        )


@dataclass(frozen=True)
class Part:
    """A part of a reservation."""

    #: The name of the resource.
    resource: str
    #: The unit of the amounts: ``bit/s``, ``cores``, ``bytes/s``, ``pieces``.
    unit: str
    #: The strength of its guarantee; None: the resource is not there at present.
    kind: Optional[GuaranteeWord]
    #: Its direction, if it belongs to a path.
    way: Optional[PathWord]
    #: The agent that keeps it.
    agent: str
    #: The amount that it may have now: the admitted amount.
    now: float
    #: How far its enforcement is.
    enforced: EnforcementWord
    #: The reason of the failure.
    fault: Optional[str]
    #: The amounts by window.
    steps: List[Step]
    #: The flow, process or control group that the part serves.
    binding: Optional[Binding]
    #: The amount that its windows ask for now; of a background part, the most that it wants.
    asked: float = 0.0
    #: The amount that was read back from the kernel or device that enforces it.
    installed: float = 0.0
    #: The use that was measured; None: not enforced, not counted, or not for a second yet.
    measured: Optional[Measured] = None
    #: Present if the part only shares the capacity that foreground parts leave.
    background: Optional[Background] = None
    #: Of a part with a meter: the packets of each colour, since its rule was made. Of an agreement
    #: (``sla/PEER``) with one those of all its bookings.
    colors: Optional[Colors] = None
    #: The handle at that agent.
    handle: str = ""
    #: The kernel's terms for the installed limits.
    means: Optional[str] = None
    #: The meter that colours its packets, as it was asked for.
    meter: Optional[Meter] = None
    #: The smallest size of its packets, bytes.
    packet_bytes: int = 0
    #: The longest round-trip time, milliseconds.
    rtt_ms: float = 0.0

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Part":
        """Reads a broker's document."""
        return Part(
            resource=doc["resource"],
            unit=doc["unit"],
            kind=doc.get("kind"),
            way=doc.get("way"),
            agent=doc["agent"],
            now=doc["now"],
            enforced=doc["enforced"],
            fault=doc.get("fault"),
            steps=[Step.read(one) for one in doc["steps"]],
            binding=doc.get("binding"),
            asked=doc.get("asked", 0.0),
            installed=doc.get("installed", 0.0),
            measured=doc.get("measured"),
            background=doc.get("background"),
            colors=doc.get("colors"),
            handle=doc.get("handle", ""),
            means=doc.get("means"),
            meter=doc.get("meter"),
            packet_bytes=doc.get("packet_bytes", 0),
            rtt_ms=doc.get("rtt_ms", 0.0),
        )


@dataclass(frozen=True)
class EnquiredPart:
    """A part of an enquiry."""

    #: The name of the resource.
    resource: str
    #: Its direction, if it belongs to a path.
    way: Optional[PathWord]
    #: The strength of the guarantee.
    kind: GuaranteeWord
    #: The most that it could have over its whole window, in its own unit.
    free: float
    #: The steps that it would get.
    granted: List[Step]

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "EnquiredPart":
        """Reads a broker's document."""
        return EnquiredPart(
            resource=doc["resource"],
            way=doc.get("way"),
            kind=doc["kind"],
            free=doc["free"],
            granted=[Step.read(one) for one in doc.get("granted", [])],
        )


@dataclass(frozen=True)
class Alternative:
    """A request near the original one that would be accepted."""

    #: The difference from the original request.
    sort: AlternativeWord
    #: The steps that each part would get.
    parts: List[List[Step]]
    #: Of a broker: the resource of each part.
    resources: List[str] = field(default_factory=list)

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Alternative":
        """Reads a broker's document."""
        return Alternative(
            sort=doc["sort"],
            parts=[[Step.read(row) for row in one] for one in doc["parts"]],
            resources=list(doc.get("resources", [])),
        )


@dataclass(frozen=True)
class Enquiry:
    """The result of an enquiry."""

    #: True if the request would be accepted now.
    accepted: bool
    #: The highest rate from the first host to the second over the whole window, bit/s; 0: no path is known.
    forward: int
    #: The highest rate back, bit/s; 0: no path is known.
    reverse: int
    #: The parts.
    parts: List[EnquiredPart]
    #: The reason of the refusal, for people; None: it would be accepted.
    reason: Optional[str]
    #: Alternatives that would be accepted now.
    alternatives: List[Alternative]
    #: The refusal, if it would not be accepted.
    refusal: Optional[Refusal] = None

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Enquiry":
        """Reads a broker's document."""
        refusal = doc.get("refusal") or {}
        return Enquiry(
            accepted=doc["accepted"],
            forward=doc.get("forward") or 0,
            reverse=doc.get("reverse") or 0,
            parts=[EnquiredPart.read(one) for one in doc["parts"]],
            reason=refusal.get("message"),
            alternatives=[Alternative.read(one) for one in refusal.get("alternatives", [])],
            refusal=doc.get("refusal"),
        )


@dataclass(frozen=True)
class Resource:
    """A resource."""

    #: Its name.
    resource: str
    #: The unit of its amounts.
    unit: str
    #: The strength of its guarantees.
    kind: GuaranteeWord
    #: The most that can be booked at all.
    capacity: float
    #: The amount that can be booked at this instant.
    free: float
    #: The free amounts, by window.
    timeline: List[Step]
    #: The most that all background parts may have together now.
    background: float = 0.0
    #: The amount that background parts have now. Foreground does not wait for it: it is not taken from
    #: ``free``.
    background_now: float = 0.0
    #: The largest amount that is promised and not available.
    missing: Optional[float] = None
    #: The start of that shortage, now or later.
    missing_from: Optional[datetime] = None
    #: True if more of the timeline did not fit: ask for this ``resource`` alone, from the end of the last
    #: step on.
    more: bool = False
    #: True if the resources behind this one did not fit: ask for those ``after`` it.
    next: bool = False
    #: The number of reservations that are not over.
    reservations: int = 0

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Resource":
        """Reads a broker's document."""
        return Resource(
            resource=doc["resource"],
            unit=doc["unit"],
            kind=doc["kind"],
            capacity=doc["capacity"],
            free=doc["free"],
            timeline=[Step.read(one) for one in doc.get("timeline", [])],
            background=doc.get("background", 0.0),
            background_now=doc.get("background_now", 0.0),
            missing=doc.get("missing"),
            missing_from=when(doc.get("missing_from")),
            more=doc.get("more", False),
            next=doc.get("next", False),
            reservations=doc.get("reservations", 0),
        )


@dataclass(frozen=True)
class Event:
    """An event of a reservation."""

    #: The place in the stream: ``events(after=event.id)`` goes on behind it.
    id: str
    #: The kind of event. ``created``, ``committed``, ``modified``, ``bound``, ``opened``, ``paused``,
    #: ``ends_soon``, ``ended``, ``cancelled``, ``expired``, ``share``, ``failing``, ``in_force``, ``short``,
    #: ``contradicted``. Streams also have ``lost``: some events before the next are no longer kept. The
    #: events of one reservation also have ``state``: its state, in ``text``.
    event: str
    #: The name of the reservation.
    reservation: str
    #: The agent.
    agent: str
    #: ``forward`` or ``reverse``, if it concerns a part of a path.
    way: Optional[str]
    #: The part, if the event is about one.
    part: Optional[int]
    #: The time of the event.
    at: Optional[datetime]
    #: ``share``: the amount before.
    before: Optional[float]
    #: ``share``: the amount from now on; 0: suspended. ``short``: the amount that is missing.
    now: Optional[float]
    #: ``created``: the state. ``ends_soon``: the end. ``short``: the first instant of the shortage.
    #: ``failing``: the reason.
    text: Optional[str]
    #: ``bound``: the new binding.
    binding: Optional[Binding] = None
    #: The group of the reservation.
    group: str = ""
    #: The handle of the reservation.
    handle: str = ""
    #: The owner of the reservation.
    owner: str = ""
    #: The number of the event. Numbers grow; some are never used.
    seq: int = 0

    @staticmethod
    def read(ident: str, kind: str, doc: Mapping[str, Any]) -> "Event":
        """Reads a broker's document."""
        return Event(
            id=ident,
            event=kind,
            reservation=doc.get("reservation", ""),
            agent=doc.get("agent", ""),
            way=doc.get("way"),
            part=doc.get("part"),
            at=when(doc.get("at")),
            before=doc.get("from"),
            now=doc.get("to"),
            text=doc.get("text"),
            binding=doc.get("binding"),
            group=doc.get("group", ""),
            handle=doc.get("handle", ""),
            owner=doc.get("owner", ""),
            seq=doc.get("seq", 0),
        )


@dataclass(frozen=True)
class Hop:
    """An interface on a path."""

    #: The agent.
    agent: str
    #: The interface by which packets leave there.
    interface: str
    #: The resource of these packets; None: none, so no reservation goes over it.
    resource: Optional[str]

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Hop":
        """Reads a broker's document."""
        return Hop(
            agent=doc["agent"],
            interface=doc["interface"],
            resource=doc.get("resource"),
        )


@dataclass(frozen=True)
class Path:
    """A path."""

    #: The interfaces, in order.
    hops: List[Hop]
    #: The least rate of its links, wire bit/s; None: none of them is known.
    rate_wire_bps: Optional[int]
    #: True if packets take it now, by the routes of the agents' kernels; false: it is computed from links and
    #: costs.
    routed: bool = False

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Path":
        """Reads a broker's document."""
        return Path(
            hops=[Hop.read(one) for one in doc["hops"]],
            rate_wire_bps=doc.get("rate_wire_bps"),
            routed=doc.get("routed", False),
        )


@dataclass(frozen=True)
class Paths:
    """Paths between two hosts, the best first."""

    #: Paths from the first host to the second.
    forward: List[Path]
    #: Paths back.
    reverse: List[Path]
    #: Agents that did not report their links: paths over them are missing here.
    away: List[str]

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Paths":
        """Reads a broker's document."""
        return Paths(
            forward=[Path.read(one) for one in doc["forward"]],
            reverse=[Path.read(one) for one in doc["reverse"]],
            away=list(doc.get("away", [])),
        )


@dataclass(frozen=True)
class DomainHop:
    """A domain on a path."""

    #: The domain.
    domain: str
    #: The border by which packets come in; None: from its own host.
    entry: Optional[Border]
    #: The border by which they leave; None: to its own host.
    exit: Optional[Border]

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "DomainHop":
        """Reads a broker's document."""
        return DomainHop(
            domain=doc["domain"],
            entry=doc.get("from"),
            exit=doc.get("to"),
        )


@dataclass(frozen=True)
class DomainPath:
    """A path over domains between two hosts."""

    #: The sum of the costs of its ways.
    cost: int
    #: The least that is free on it in the time that was asked about, bit/s of IP bytes, as the domains
    #: publish it; None: it is inside one domain.
    free: Optional[int]
    #: The domains, in order.
    hops: List[DomainHop]

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "DomainPath":
        """Reads a broker's document."""
        return DomainPath(
            cost=doc["cost"],
            free=doc.get("free"),
            hops=[DomainHop.read(one) for one in doc["hops"]],
        )


@dataclass(frozen=True)
class Topology:
    """All that a broker knows of domains."""

    #: The broker's own domain; None: its file names none, and nothing is published.
    own: Optional[str]
    #: The advertisements that are believed, by domain. Brokers get them as ``statements``.
    domains: List[KnownDomain]
    #: The paths between the two hosts, the cheapest first; empty if none were named.
    paths: List[DomainPath]
    #: The neighbours' brokers, and how the last question to each went.
    neighbours: List[Neighbour]
    #: The advertisements as their domains signed them, if they were asked for.
    statements: List[Statement] = field(default_factory=list)
    #: The reason why nothing of our own is published now; None: it is, or the broker has no domain.
    unpublished: Optional[str] = None

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Topology":
        """Reads a broker's document."""
        return Topology(
            own=doc.get("own"),
            domains=list(doc.get("domains", [])),
            paths=[DomainPath.read(one) for one in (doc.get("paths") or [])],
            neighbours=list(doc.get("neighbours", [])),
            statements=list(doc.get("statements", [])),
            unpublished=doc.get("unpublished"),
        )


@dataclass(frozen=True)
class Webhook:
    """A webhook."""

    #: The name.
    id: str
    #: The URL.
    url: str
    #: The secret that signs deliveries; shown once, at its creation.
    secret: Optional[str]
    #: The reservation, if only its events are reported. Mail about one ends with it.
    reservation: Optional[str]
    #: The number of failures since the last success.
    failures: int = 0
    #: The reason of the last failure.
    last_failure: Optional[str] = None
    #: The place in the stream of events up to which it delivered.
    delivered: str = ""
    #: The kinds of events that are reported; none: all.
    events: List[EventWord] = field(default_factory=list)

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Webhook":
        """Reads a broker's document."""
        return Webhook(
            id=doc["id"],
            url=doc["url"],
            secret=doc.get("secret"),
            reservation=doc.get("reservation"),
            failures=doc["failures"],
            last_failure=doc.get("last_failure"),
            delivered=doc.get("delivered", ""),
            events=list(doc.get("events", [])),
        )


@dataclass(init=False)
class State:
    """A reservation."""

    #: The name. It is opaque; keep it.
    id: str
    #: The owner.
    owner: str
    #: The label that the owner gave it.
    label: str
    #: Its state over all of its agents.
    state: ReservationWord
    #: The time of creation.
    created: Optional[datetime]
    #: The end of the hold.
    hold_until: Optional[datetime]
    #: The rate from the first host to the second now, bit/s; None: nothing is reserved in that direction, or
    #: it is not between two hosts.
    forward: Optional[int]
    #: The rate back, bit/s; None likewise.
    reverse: Optional[int]
    #: Its parts in this domain.
    parts: List[Part]
    #: The domain that asked for it, if it is a leg of a reservation that begins elsewhere.
    above: str
    #: Agents that have a part of it and do not answer now: its state there is not known.
    away: List[str]
    #: The acceptances of other domains, the nearest first; if another domain asked for it, our own acceptance
    #: comes before.
    legs: List[Leg]
    #: Agents that do not know their part of it, or no longer know it.
    missing: List[str]
    #: Seconds before its end at which its owner is told; None: not at all.
    notify_s: float
    #: The two hosts, if it is a path.
    path: Optional[Ends]

    def take(self, doc: Mapping[str, Any]) -> None:
        """Becomes what a broker's document says."""
        path = doc.get("path") or {}
        self.id = doc["id"]
        self.owner = doc["owner"]
        self.label = doc["label"]
        self.state = doc["state"]
        self.created = when(doc["created"])
        self.hold_until = when(doc.get("hold_until"))
        self.forward = path.get("forward")
        self.reverse = path.get("reverse")
        self.parts = [Part.read(one) for one in doc["parts"]]
        self.above = doc.get("above") or ""
        self.away = list(doc.get("away", []))
        self.legs = list(doc.get("legs", []))
        self.missing = list(doc.get("missing", []))
        self.notify_s = doc.get("notify_s") or 0.0
        self.path = doc.get("path")
