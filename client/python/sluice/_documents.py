"""What goes over the wire, as Python has it: dataclasses, and units as people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

Rate = Union[int, str]
Duration = Union[int, float, str, timedelta]
When = Union[datetime, str]

_RATES = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12, "bps": 8, "kbps": 8 * 10**3, "mbps": 8 * 10**6}
_SPANS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_PROTOCOLS = {"tcp": 6, "udp": 17}


def _united(text: str, units: Mapping[str, Union[int, float]], what: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text.lower())
    if not found or found.group(2) not in units:
        raise ValueError("%r is no %s: write a number and one of %s" % (text, what, ", ".join(units)))
    return float(found.group(1)) * units[found.group(2)]


def rate(value: Rate) -> int:
    """Bit/s, from a number of them or as tc writes it: ``"8mbit"``, ``"125kbps"`` (bytes a second)."""
    if isinstance(value, str):
        return round(_united(value, _RATES, "rate"))
    if isinstance(value, bool) or value != int(value) or value < 0:
        raise ValueError("a rate is a whole number of bit/s, not %r" % (value,))
    return int(value)


def duration(value: Duration) -> float:
    """Seconds, from a number of them, a timedelta, or ``"90s"``, ``"1h"``."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return _united(value, _SPANS, "span of time") if isinstance(value, str) else float(value)


def instant(value: When) -> str:
    """RFC 3339; a datetime must say its zone."""
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise ValueError("a time needs its zone: datetime.now(timezone.utc), or .astimezone() of a local one")
    return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def when(text: Optional[str]) -> Optional[datetime]:
    """A datetime in UTC; None is never."""
    if text is None or text == "forever":
        return None
    whole = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z", text)
    if not whole:
        return datetime.fromisoformat(text)
    micros = int((whole.group(2) or "0").ljust(6, "0")[:6])
    return datetime.strptime(whole.group(1), "%Y-%m-%dT%H:%M:%S").replace(microsecond=micros, tzinfo=timezone.utc)


def protocol(value: Union[int, str]) -> int:
    """An IP protocol number, or ``"udp"``, ``"tcp"``."""
    return _PROTOCOLS[value.lower()] if isinstance(value, str) else int(value)


@dataclass(frozen=True)
class Step:
    """An amount in a window."""

    start: Optional[datetime]
    #: None: open.
    end: Optional[datetime]
    amount: float

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Step":
        return Step(when(doc["start"]), when(doc.get("end")), doc["amount"])


@dataclass(frozen=True)
class Part:
    """A part of a reservation."""

    resource: str
    #: What amounts count: ``bit/s``, ``cores``, ``bytes/s``, ``pieces``.
    unit: str
    #: ``reserved``, or ``cap`` where only a cap is possible.
    kind: Optional[str]
    #: ``forward`` or ``reverse``, where it is of a path.
    way: Optional[str]
    agent: str
    #: What it may have now.
    now: float
    #: ``idle``, ``unbound``, ``pending``, ``in_force`` or ``failed``.
    enforced: str
    fault: Optional[str]
    steps: List[Step]
    binding: Optional[Dict[str, Any]]
    #: What its windows ask for now.
    asked: float = 0.0
    #: What was read back for it from whatever enforces it.
    installed: float = 0.0
    #: What it was seen to use: ``amount`` in its unit, as a mean over ``interval_s``; ``None``: not for a second yet.
    measured: Optional[Dict[str, Any]] = None

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Part":
        steps = [Step.read(step) for step in doc["steps"]]
        return Part(
            doc["resource"], doc["unit"], doc.get("kind"), doc.get("way"), doc["agent"], doc["now"], doc["enforced"],
            doc.get("fault"), steps, doc.get("binding"), doc.get("asked", 0.0), doc.get("installed", 0.0),
            doc.get("measured"),
        )


@dataclass(frozen=True)
class EnquiredPart:
    """A part of an enquiry."""

    resource: str
    way: Optional[str]
    kind: str
    #: The most that it could have over the whole window.
    free: float
    granted: List[Step]


@dataclass(frozen=True)
class Alternative:
    """Something near what was asked that would be accepted."""

    #: ``later``, ``slower``, ``shorter`` or ``other_path``.
    sort: str
    parts: List[List[Step]]
    #: The resource of each part.
    resources: List[str] = field(default_factory=list)

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Alternative":
        steps = [[Step.read(step) for step in part] for part in doc["parts"]]
        return Alternative(doc["sort"], steps, list(doc.get("resources", [])))


@dataclass(frozen=True)
class Enquiry:
    """What would be granted."""

    accepted: bool
    #: The most that could go from the one host to the other over the whole window, bit/s; 0 where no way is known.
    forward: int
    #: The most that could come back.
    reverse: int
    parts: List[EnquiredPart]
    #: Why not, in words.
    reason: Optional[str]
    alternatives: List[Alternative]

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Enquiry":
        refusal = doc.get("refusal") or {}
        parts = [
            EnquiredPart(part["resource"], part.get("way"), part["kind"], part["free"], [Step.read(s) for s in part.get("granted", [])])
            for part in doc["parts"]
        ]
        others = [Alternative.read(one) for one in refusal.get("alternatives", [])]
        return Enquiry(doc["accepted"], doc.get("forward") or 0, doc.get("reverse") or 0, parts, refusal.get("message"), others)


@dataclass(frozen=True)
class Resource:
    """Something that can be reserved."""

    resource: str
    unit: str
    kind: str
    capacity: float
    free: float
    timeline: List[Step]


@dataclass(frozen=True)
class Event:
    """Something that happened to a reservation."""

    #: Where the stream goes on after it: ``events(after=event.id)``.
    id: str
    #: ``created``, ``opened``, ``share``, ``ended``, ...; ``lost``: some before the next are not kept any more; ``state`` (of a
    #: reservation's own events): how it is, in ``text``.
    event: str
    reservation: str
    agent: str
    way: Optional[str]
    part: Optional[int]
    at: Optional[datetime]
    #: ``share``: what it had, and has.
    before: Optional[float]
    now: Optional[float]
    text: Optional[str]

    @staticmethod
    def of_state(ident: str, reservation: str, state: str) -> "Event":
        return Event(ident, "state", reservation, "", None, None, datetime.now(timezone.utc), None, None, state)

    @staticmethod
    def read(ident: str, kind: str, doc: Mapping[str, Any]) -> "Event":
        return Event(
            ident, kind, doc.get("reservation", ""), doc.get("agent", ""), doc.get("way"), doc.get("part"), when(doc.get("at")),
            doc.get("from"), doc.get("to"), doc.get("text"),
        )


@dataclass(frozen=True)
class Hop:
    """An interface on a way."""

    agent: str
    interface: str
    resource: Optional[str]


@dataclass(frozen=True)
class Path:
    """A way between two hosts."""

    hops: List[Hop]
    rate_wire_bps: Optional[int]


@dataclass(frozen=True)
class Paths:
    """Ways between two hosts, the best first."""

    forward: List[Path]
    reverse: List[Path]
    #: Agents that did not say what links they have: ways over them are missing.
    away: List[str]

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Paths":
        def path(row: Mapping[str, Any]) -> Path:
            return Path([Hop(h["agent"], h["interface"], h.get("resource")) for h in row["hops"]], row.get("rate_wire_bps"))

        return Paths([path(row) for row in doc["forward"]], [path(row) for row in doc["reverse"]], doc.get("away", []))


@dataclass(frozen=True)
class Webhook:
    """A target for events."""

    id: str
    url: str
    #: What deliveries are signed with; only of a new one.
    secret: Optional[str]
    reservation: Optional[str]
    failures: int = 0
    last_failure: Optional[str] = None

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Webhook":
        return Webhook(doc["id"], doc["url"], doc.get("secret"), doc.get("reservation"), doc["failures"], doc.get("last_failure"))


#: States in which a reservation is no more.
OVER = ("ended", "cancelled", "expired")


@dataclass
class State:
    """A reservation as a document says it; brokers' reservations are kept up to date by their own calls."""

    id: str = ""
    owner: str = ""
    label: str = ""
    #: ``held``, ``booked``, ``active``, ``suspended``, ``ended``, ``cancelled``, ``expired`` or ``broken``.
    state: str = ""
    created: Optional[datetime] = None
    hold_until: Optional[datetime] = None
    #: What goes from the one host to the other, bit/s; None: it is not between two hosts.
    forward: Optional[int] = None
    reverse: Optional[int] = None
    parts: List[Part] = field(default_factory=list)

    def is_over(self) -> bool:
        """Whether it has ended, was cancelled, or its hold expired."""
        return self.state in OVER

    def take(self, doc: Mapping[str, Any]) -> None:
        """Becomes what a document says."""
        path = doc.get("path") or {}
        self.id, self.owner, self.label, self.state = doc["id"], doc["owner"], doc["label"], doc["state"]
        self.created, self.hold_until = when(doc["created"]), when(doc.get("hold_until"))
        self.forward, self.reverse = path.get("forward"), path.get("reverse")
        self.parts = [Part.read(part) for part in doc["parts"]]


def resources(doc: Mapping[str, Any]) -> List[Resource]:
    """Of an answer."""
    return [
        Resource(row["resource"], row["unit"], row["kind"], row["capacity"], row["free"], [Step.read(s) for s in row.get("timeline", [])])
        for row in doc["resources"]
    ]


def flow(from_port: Optional[int], to_port: Optional[int], of: Union[int, str, None]) -> Dict[str, Any]:
    """Which packets between two hosts."""
    said = {"from_port": from_port, "to_port": to_port, "protocol": None if of is None else protocol(of)}
    return {name: value for name, value in said.items() if value is not None}


def limited(
    end: Optional[When], duration_: Optional[Duration], more: Mapping[str, Any]
) -> Tuple[Optional[When], Optional[Duration]]:
    """Until when, or for how long; nothing is reserved for ever unless that is said."""
    if end is None and duration_ is None and not more.get("deadline") and not more.get("windows"):
        raise ValueError("for how long? duration=3600, duration=\"1h\", end=..., or duration=\"forever\"")
    return ("forever", None) if duration_ == "forever" else (end, duration_)


def wish(
    a: Optional[str],
    b: Optional[str],
    *,
    forward: Optional[Rate],
    reverse: Optional[Rate],
    forward_at_least: Optional[Rate] = None,
    parts: Optional[Sequence[Mapping[str, Any]]],
    start: Optional[When],
    end: Optional[When],
    duration_: Optional[Duration],
    earliest: bool = False,
    volume: Optional[int] = None,
    deadline: Optional[When] = None,
    windows: Optional[Sequence[Sequence[When]]] = None,
    background: Union[bool, Mapping[str, Any], None] = None,
    rtt_ms: Optional[float] = None,
    packet_bytes: Optional[int] = None,
    label: str = "",
    hold: Optional[Duration] = None,
) -> Dict[str, Any]:
    """The document of a request."""
    doc: Dict[str, Any] = {}
    if a is not None or b is not None:
        path: Dict[str, Any] = {"from": a, "to": b}
        for name, value in (("forward", forward), ("reverse", reverse), ("forward_at_least", forward_at_least)):
            if value is not None:
                path[name] = rate(value)
        if background:
            path["background"] = {} if background is True else dict(background)
        path.update({n: v for n, v in (("rtt_ms", rtt_ms), ("packet_bytes", packet_bytes)) if v is not None})
        doc["path"] = path
    if parts:
        doc["parts"] = [dict(part) for part in parts]
    if volume is not None:
        if deadline is None:
            raise ValueError("a volume needs its deadline")
        doc["volume"] = {"bytes": volume, "deadline": instant(deadline)}
    if windows:
        doc["windows"] = [{"start": instant(s), "end": instant(e)} for s, e in windows]
    said = {
        "start": start and instant(start),
        "end": end and instant(end),
        "duration_s": None if duration_ is None else duration(duration_),
        "hold_s": None if hold is None else duration(hold),
        "earliest": earliest or None,
        "label": label or None,
    }
    doc.update({name: value for name, value in said.items() if value is not None})
    return doc


def change(
    forward: Optional[Rate],
    reverse: Optional[Rate],
    amounts: Optional[Sequence[Mapping[str, Any]]],
    start: Optional[When],
    end: Optional[When],
    duration_: Optional[Duration],
    label: Optional[str],
) -> Dict[str, Any]:
    """The document of a change; a duration counts from now."""
    if duration_ is not None:
        end = datetime.now(timezone.utc) + timedelta(seconds=duration(duration_))
    said = {
        "forward": None if forward is None else rate(forward),
        "reverse": None if reverse is None else rate(reverse),
        "amounts": [dict(one) for one in amounts] if amounts else None,
        "start": start and instant(start),
        "end": end and instant(end),
        "label": label,
    }
    return {name: value for name, value in said.items() if value is not None}
