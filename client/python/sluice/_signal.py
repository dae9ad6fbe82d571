"""What RSVP speaks of: traffic, flowspecs, styles, and the events of a session; and their documents on the agent's socket."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple, Union, cast

from ._units import Rate, protocol as _protocol, rate as _rate

#: Seconds between two tries to connect to an agent that went away.
RETRY = 0.5
#: The most senders of a session that are listed, and the most events that wait.
MOST_SENDERS, MOST_EVENTS = 1024, 4096
_STYLES = ("ff", "se", "wf")


@dataclass(frozen=True)
class Tspec:
    """Traffic (RFC 2210): a token bucket, a peak, and the sizes of packets, bytes of IP."""

    #: Token rate r, bit/s.
    rate: Rate
    #: Bucket depth b, bytes; at least ``max_packet``.
    bucket: int
    #: Peak rate p, bit/s; None: not bounded.
    peak: Optional[Rate] = None
    #: Minimum policed unit m.
    min_unit: int = 64
    #: Maximum packet size M.
    max_packet: int = 1500

    def doc(self) -> Dict[str, Any]:
        peak = None if self.peak is None else _rate(self.peak)
        sizes = {"b_bytes": self.bucket, "m_bytes": self.min_unit, "M_bytes": self.max_packet}
        return {"r_bps": _rate(self.rate), "p_bps": peak, **sizes}

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Tspec":
        return Tspec(doc["r_bps"], doc["b_bytes"], doc["p_bps"], doc["m_bytes"], doc["M_bytes"])


@dataclass(frozen=True)
class FlowSpec:
    """What is reserved: controlled load (RFC 2211), or with a ``rate`` guaranteed service (RFC 2212)."""

    tspec: Tspec
    #: R of guaranteed service, bit/s; None: controlled load.
    rate: Optional[Rate] = None
    #: S, microseconds.
    slack_us: int = 0

    def doc(self) -> Dict[str, Any]:
        if self.rate is None:
            return {"service": "controlled-load", "tspec": self.tspec.doc()}
        return {"service": "guaranteed", "tspec": self.tspec.doc(), "R_bps": _rate(self.rate), "S_us": self.slack_us}

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "FlowSpec":
        return FlowSpec(Tspec.read(doc["tspec"]), doc.get("R_bps"), doc.get("S_us", 0))


@dataclass(frozen=True)
class Sender:
    """A sender of a session: its address and port."""

    src: str
    src_port: int

    def doc(self) -> Dict[str, Any]:
        return {"src": self.src, "src_port": self.src_port}

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Sender":
        return Sender(doc["src"], doc["src_port"])


@dataclass(frozen=True)
class Adspec:
    """The properties of the path from a sender (RFC 2210, section 3.3)."""

    #: Hops with integrated services; and True if one without them was passed.
    hops: int
    break_bit: bool
    #: Least bandwidth, bit/s; minimum latency, microseconds; None: not known.
    bandwidth: Optional[int]
    latency_us: Optional[int]
    mtu: int
    #: The break bit of each service; None: the sender does not offer it.
    controlled_load_break: Optional[bool]
    guaranteed_break: Optional[bool]
    #: C and D of guaranteed service, bytes and microseconds: of the whole path, and since the last reshaping point.
    c_tot: int = 0
    d_tot: int = 0
    c_sum: int = 0
    d_sum: int = 0

    @staticmethod
    def read(doc: Mapping[str, Any]) -> "Adspec":
        of = doc["guaranteed"]
        names = ("c_tot_bytes", "d_tot_us", "c_sum_bytes", "d_sum_us")
        return Adspec(
            doc["hops"], doc["break_bit"], doc["bandwidth_bps"], doc["latency_us"], doc["mtu"], doc["controlled_load_break"],
            of and of["break_bit"], *(of[name] if of else 0 for name in names),
        )


@dataclass(frozen=True)
class PathEvent:
    """A sender's Path messages come, or say something else than before."""

    sender: Sender
    tspec: Tspec
    adspec: Optional[Adspec]


@dataclass(frozen=True)
class PathGone:
    """A sender is gone."""

    sender: Sender


@dataclass(frozen=True)
class ResvEvent:
    """A sender's flow is reserved as far as its own node."""

    sender: Sender
    style: Optional[str]
    flowspec: FlowSpec


@dataclass(frozen=True)
class ResvGone:
    """The reservation of a sender's flow is gone."""

    sender: Sender


@dataclass(frozen=True)
class Confirmed:
    """A reservation is in place as far as the node that says so."""

    sender: Sender
    flowspec: FlowSpec
    node: str


@dataclass(frozen=True)
class ErrorEvent:
    """PathErr or ResvErr: who refused what, and why."""

    #: True if it answers a reservation, False if it answers a sender.
    resv: bool
    #: Error code and value of RFC 2205 appendix B, and the code in words.
    code: int
    value: int
    meaning: str
    #: The node that found the error, and its own words: which interface, how much was asked, how much is free.
    node: str
    text: Optional[str]
    #: True: the older reservation is still in place. True: it is not this receiver's request that failed.
    in_place: bool
    not_guilty: bool
    #: The senders that it is about, and the flowspec that was refused.
    filters: List[Sender]
    flowspec: Optional[FlowSpec]


@dataclass(frozen=True)
class AgentAway:
    """The agent went away; the session tries again, and registers everything anew when it is back."""


SessionEvent = Union[PathEvent, PathGone, ResvEvent, ResvGone, Confirmed, ErrorEvent, AgentAway]


def event(doc: Mapping[str, Any], session: Mapping[str, Any], filters: Sequence[Sender]) -> Optional[SessionEvent]:
    """The event of a session; None: it is of something else. ``filters`` are those of the reservation that was asked for."""
    kind = doc.get("type")
    if doc.get("session") != session:
        return None
    sender = Sender.read(doc["sender"]) if doc.get("sender") else None
    if kind == "error":
        resv = doc["answers"] == "resv"
        spec = doc.get("flowspec")
        return ErrorEvent(
            resv, doc["code"], doc["value"], doc["meaning"], doc["node"], doc.get("text"), doc["in_place"],
            doc.get("not_guilty", False), [sender] if sender else list(filters) if resv else [], spec and FlowSpec.read(spec),
        )
    if sender is None:
        return None
    if kind == "path":
        return PathEvent(sender, Tspec.read(doc["tspec"]), Adspec.read(doc["adspec"]) if doc.get("adspec") else None)
    if kind == "resv":
        return ResvEvent(sender, doc.get("style"), FlowSpec.read(doc["flowspec"]))
    if kind == "confirm":
        return Confirmed(sender, FlowSpec.read(doc["flowspec"]), doc["node"])
    if kind == "path_gone":
        return PathGone(sender)
    return ResvGone(sender) if kind == "resv_gone" else None


def session_doc(dst: str, dst_port: int, protocol: Union[int, str]) -> Dict[str, Any]:
    """The document of a session."""
    return {"dst": dst, "protocol": _protocol(protocol), "dst_port": dst_port}


def reserve_doc(
    style: str, senders: Sequence[Union[Sender, Tuple[str, int]]], flowspecs: Union[FlowSpec, Sequence[FlowSpec]], confirm: bool
) -> Dict[str, Any]:
    """What is said of a reservation, as far as it can be checked here."""
    if style not in _STYLES:
        raise ValueError("%r is no style: ff (fixed filter), se (shared explicit) or wf (wildcard filter)" % style)
    filters = [one if isinstance(one, Sender) else Sender(*one) for one in senders]
    specs = [flowspecs] if isinstance(flowspecs, FlowSpec) else list(flowspecs)
    wanted = len(filters) if style == "ff" else 1
    if bool(filters) == (style == "wf") or len(specs) != wanted:
        raise ValueError("%d senders and %d flowspecs do not fit the style %s" % (len(filters), len(specs), style))
    return {
        "style": style,
        "senders": [one.doc() for one in filters],
        "flowspecs": [one.doc() for one in specs],
        "confirm": confirm,
    }


class HasDescriptor(Protocol):
    """A connection."""

    def fileno(self) -> int:
        """Its descriptor; -1: it is closed."""


#: Connections that a child of ``fork`` must not keep: else the agent would not notice the parent's end.
OPEN: "weakref.WeakSet[Any]" = weakref.WeakSet()


def _close_in_child() -> None:
    for one in list(OPEN):
        descriptor = cast(HasDescriptor, one).fileno()
        if descriptor >= 0:
            # The number stays taken: whoever closes it later closes nothing else.
            nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(nothing, descriptor, inheritable=False)
            os.close(nothing)


os.register_at_fork(after_in_child=_close_in_child)
