"""The documents that stay dictionaries: requests, and parts of answers; and the words that a field may have.

Generated from docs/openapi.json by client/python/generate.py: change those, not this file.
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict


#: The strength of a guarantee.
GuaranteeWord = Literal["reserved", "cap"]


#: The direction of a part of a path.
PathWord = Literal["forward", "reverse"]


#: How far the enforcement of a part is.
EnforcementWord = Literal["idle", "unbound", "pending", "in_force", "failed"]


class Flow(TypedDict, total=False):
    """A five-tuple; a field that is left out matches any value."""

    #: Destination address.
    dst: Optional[str]
    #: Destination port.
    dst_port: Optional[int]
    #: IP protocol number: 6 is TCP, 17 UDP.
    protocol: Optional[int]
    #: Source address.
    src: Optional[str]
    #: Source port.
    src_port: Optional[int]


class Binding(TypedDict, total=False):
    """The flow, process or control group that a part serves. It has exactly one of these fields."""

    #: For a network part: a flow of packets.
    flow: Flow
    #: For a processor or disk part: all threads of a process.
    pid: int
    #: For a processor part: one thread.
    tid: int
    #: For a processor or disk part: a control group. For a network part: all packets that its processes send.
    cgroup: str


class _MeasuredRequired(TypedDict):
    #: The use: IP bytes that the edge let through, processor time, bytes read and written.
    amount: float
    #: The length of the interval, seconds.
    interval_s: float


class Measured(_MeasuredRequired, total=False):
    """The measured use of a part, in its unit: a mean over the last whole interval."""

    #: Of a network part: traffic that exceeded it and was dropped.
    refused: Optional[float]
    #: Of a disk part: the use by all unreserved traffic in the same interval.
    unreserved: Optional[float]


class Background(TypedDict, total=False):
    """The terms on which a background part shares."""

    #: The least share, in the part's unit. With less the part is suspended.
    floor: float
    #: The weight of its share against other background parts.
    weight: int


class Color(TypedDict):
    """The packets of a colour."""

    #: Their IP bytes.
    bytes: int
    #: Packets.
    packets: int


class Colors(TypedDict):
    """The packets that a meter coloured of a part, since its rule was made."""

    #: Within the committed rate.
    green: Color
    #: Above both.
    red: Color
    #: Above it, within the excess.
    yellow: Color


#: The kinds of meters.
MeterWord = Literal["srtcm", "trtcm", "rfc4115"]


class _MeterRequired(TypedDict):
    #: The kind of meter.
    kind: MeterWord


class Meter(_MeterRequired, total=False):
    """A meter, which colours the packets of a background part in the place of dropping what exceeds it: green
    is AF11, yellow AF12. The committed rate is the rate of the part.
    """

    #: Colour-aware: packets that come as AF12 or AF13 get no better colour.
    aware: bool
    #: The committed burst, bytes; None: it follows from the rate and the round-trip time.
    burst_bytes: Optional[int]
    #: The excess rate of ``rfc4115``, bit/s; None: as the rate of the part.
    excess: Optional[int]
    #: Red packets go on as AF13; without it they are dropped, or lose their mark if the binding leaves a
    #: field open.
    mark_red: bool
    #: The peak rate of ``trtcm``, bit/s; None: twice the rate of the part.
    peak: Optional[int]
    #: The excess burst, or of ``trtcm`` the peak burst, bytes; None: in proportion to the rates.
    second_burst_bytes: Optional[int]


#: The difference of an alternative from the original request.
AlternativeWord = Literal["later", "slower", "shorter", "other_path"]


class Epoch(TypedDict):
    """A start of a coordinator."""

    #: The number of decisions to commit that its journal had seen at this start.
    decisions: int
    #: Drawn by chance at this start.
    nonce: int
    #: Its number, from 1; later starts have higher ones.
    number: int


class _RefusalRequired(TypedDict):
    #: A message for people.
    message: str
    #: For programs: ``no_room``, ``policy``, ``no_resource``, ``unknown_handle``, ``wrong_state``,
    #: ``key_used``, ``key_over``, ``taken``, ``limit``, ``meaningless``, ``clock``, ``not_written``,
    #: ``starting``, ``undecided``, ``outdated``, ``not_promised``.
    reason: str


class Refusal(_RefusalRequired, total=False):
    """A refusal, with alternatives that would be accepted."""

    #: Alternatives that would be accepted now.
    alternatives: List[Dict[str, Any]]
    #: The amount that was asked for.
    asked: Optional[float]
    #: The end of the shortage.
    end: Optional[str]
    #: The amount that is free.
    free: Optional[float]
    #: Of ``outdated``: the newest start of the broker that the agent knows.
    known: Optional[Epoch]
    #: The part of the request that was refused, if it was one.
    part: Optional[int]
    #: The name of the resource.
    resource: Optional[str]
    #: The rule of policy that decided.
    rule: Optional[str]
    #: The start of the shortage.
    start: Optional[str]


class Border(TypedDict):
    """A link to a neighbouring domain."""

    #: The network that the two domains share there: ``10.0.3.0/30``.
    link: str
    #: The neighbour.
    neighbour: str


class Free(TypedDict):
    """An amount that is free from a moment on, until the next row; the last one goes on."""

    #: The free rate, bit/s of IP bytes; rounded down.
    rate: int
    #: The first moment.
    start: str


class _DomainWayRequired(TypedDict):
    #: The cost of the way; at least 1.
    cost: int
    #: The free amounts, in coarse steps.
    free: List[Free]
    #: The most that could ever be reserved, bit/s of IP bytes.
    rate: int


_DomainWayOptional = TypedDict(
    "_DomainWayOptional",
    {
        # The border by which packets come in; None: they come from the domain's own hosts.
        "from": Optional[Border],
        # The border by which they leave; None: they go to the domain's own hosts.
        "to": Optional[Border],
    }, total=False,
)


class DomainWay(_DomainWayRequired, _DomainWayOptional):
    """A way through a domain: packets come in at one end and leave by the other."""


class Advertisement(TypedDict):
    """All that a domain publishes of itself. This document is the text that its broker signs."""

    #: The domain.
    domain: str
    #: The moment of publication.
    issued: str
    #: The networks of the domain's hosts: ``10.0.1.0/24``.
    networks: List[str]
    #: The number; each is higher than the one before, also after a restart.
    number: int
    #: The moment from which it is not believed any more.
    until: str
    #: The ways through the domain.
    ways: List[DomainWay]


class _KnownDomainRequired(TypedDict):
    #: Its advertisement.
    advertisement: Advertisement


class KnownDomain(_KnownDomainRequired, total=False):
    """A domain as it is known."""

    #: The neighbour that passed it on; None: it is our own.
    learnt_from: Optional[str]


class _NeighbourRequired(TypedDict):
    #: The neighbour's domain.
    neighbour: str


class Neighbour(_NeighbourRequired, total=False):
    """A neighbour's broker."""

    #: The last answer; None: there was none.
    answered: Optional[str]
    #: The reason why the last question had no answer; None: it had one.
    away: Optional[str]
    #: The number of advertisements of its that were refused since the broker started.
    refused: int
    #: The reason of the last refusal.
    why: Optional[str]


class Statement(TypedDict):
    """A signed text, with the certificates of who signed it: anybody who trusts their authority can check it.
    """

    #: The signer's certificate and those after it: DER, in hexadecimal digits.
    chain: List[str]
    #: The signature, ECDSA P-256 with SHA-256 in ASN.1: hexadecimal digits.
    signature: str
    #: The text, JSON itself.
    text: str


#: The kinds of events of a reservation.
EventWord = Literal[
    "created",
    "committed",
    "modified",
    "bound",
    "opened",
    "paused",
    "ends_soon",
    "ended",
    "cancelled",
    "expired",
    "share",
    "failing",
    "in_force",
    "short",
    "contradicted",
]


#: The state of a reservation over all of its agents.
ReservationWord = Literal[
    "held",
    "booked",
    "active",
    "suspended",
    "ended",
    "cancelled",
    "expired",
    "preparing",
    "committing",
    "aborting",
    "broken",
]


class _LegRequired(TypedDict):
    #: The domain.
    domain: str
    #: The rate from the first host to the last, bit/s.
    forward: int
    #: The reservation's name there.
    reservation: str
    #: The rate back, bit/s.
    reverse: int


class Leg(_LegRequired, total=False):
    """A leg in a domain, as it has accepted it by its signature."""

    #: The domain from which packets come.
    entry: Optional[str]
    #: The domain to which they go on; None: they end there.
    exit: Optional[str]
    #: The agreement with the domain from which packets come that it counts against, as AGENT/RESOURCE.
    sla: Optional[str]


_EndsRequired = TypedDict(
    "_EndsRequired",
    {
        # The first host.
        "from": str,
        # The second host.
        "to": str,
    },
)


class Ends(_EndsRequired, total=False):
    """Two hosts."""

    #: The rate from the first host to the second now, bit/s; None: nothing is reserved in that direction.
    forward: Optional[int]
    #: The rate back, bit/s.
    reverse: Optional[int]


class _PartWishRequired(TypedDict):
    #: ``net/eth1``, ``cpu``, ``disk/sda``, ``licence/NAME``.
    resource: str


class PartWish(_PartWishRequired, total=False):
    """An amount of one resource, in exactly one of ``rate``, ``cores``, ``bytes_per_s`` and ``count``."""

    #: The least acceptable amount, in the same unit; None: all of it.
    at_least: Optional[float]
    #: Makes it a background part, which only shares the capacity that foreground parts leave.
    background: Optional[Background]
    #: The flow, process or control group that the part serves; None: it is bound later.
    binding: Optional[Binding]
    #: Of a disk part: the rate, bytes a second.
    bytes_per_s: Optional[int]
    #: Of a processor part: cores; 0.5 is half of one.
    cores: Optional[float]
    #: Of a counted resource: pieces.
    count: Optional[int]
    #: Of a background part of an interface: the meter that colours its packets; None: what exceeds its rate
    #: is dropped.
    meter: Optional[Meter]
    #: The smallest size of its packets, bytes of IP; None: 1,000.
    packet_bytes: Optional[int]
    #: Of a network part: the rate, bit/s of IP bytes.
    rate: Optional[int]
    #: The longest round-trip time, milliseconds; None: 100.
    rtt_ms: Optional[float]


class Ports(TypedDict, total=False):
    """A filter of packets between the two hosts. Packets back have the ports swapped."""

    #: The port at the first host; None: any.
    from_port: Optional[int]
    #: IP protocol number: 6 is TCP, 17 UDP; None: any.
    protocol: Optional[int]
    #: The port at the second host; None: any.
    to_port: Optional[int]


_PathWishRequired = TypedDict(
    "_PathWishRequired",
    {
        # The address of the first host.
        "from": str,
        # The address of the second host.
        "to": str,
    },
)


class PathWish(_PathWishRequired, total=False):
    """A path between two hosts."""

    #: Makes it a background part, which only shares the capacity that foreground parts leave.
    background: Optional[Background]
    #: The packets that it serves; None: they are bound later.
    flow: Optional[Ports]
    #: The rate from the first host to the second, bit/s; None or 0: none (in an enquiry: the most that is
    #: free).
    forward: Optional[int]
    #: The least acceptable ``forward``, bit/s; None: all of it.
    forward_at_least: Optional[int]
    #: The smallest size of its packets, bytes of IP; None: 1,000.
    packet_bytes: Optional[int]
    #: The rate back, bit/s; None or 0: none (in an enquiry: the most that is free).
    reverse: Optional[int]
    #: The least acceptable ``reverse``, bit/s; None: all of it.
    reverse_at_least: Optional[int]
    #: The longest round-trip time, milliseconds; None: 100.
    rtt_ms: Optional[float]
    #: Over several domains: this broker asks each domain's broker itself, instead of the next domain only.
    tree: bool


class Volume(TypedDict):
    """A volume of data and its deadline."""

    #: The volume, bytes.
    bytes: int
    #: The deadline.
    deadline: str


class Window(TypedDict):
    """A window of a recurrence."""

    #: The end.
    end: str
    #: The start.
    start: str


class Wish(TypedDict, total=False):
    """A request for a path between two hosts, for single resources, or for both, and a time. All of it or
    nothing. Without ``earliest``, ``volume`` and ``windows`` it is one window from ``start`` (default: now)
    to ``end``.
    """

    #: The duration, seconds; it takes the place of ``end``, and is required with ``earliest``.
    duration_s: Optional[float]
    #: Take the earliest window that fits, not before ``start`` and over by ``end``.
    earliest: bool
    #: The end; ``"forever"``: until it is cancelled. None only with ``duration_s``, ``volume`` or
    #: ``windows``, or in an enquiry, which then has no end. With ``earliest``: the latest end.
    end: Optional[str]
    #: Hold it for so many seconds, until it is committed; an enquiry ignores it.
    hold_s: Optional[float]
    #: The requester's label.
    label: str
    #: Indices into ``windows``, from 0, that need not fit; with one agent only.
    may_fail: List[int]
    #: Seconds before its end at which the event ``ends_soon`` says so; None: none does.
    notify_s: Optional[float]
    #: Single resources.
    parts: List[PartWish]
    #: A path between two hosts.
    path: Optional[PathWish]
    #: The start; None: now.
    start: Optional[str]
    #: Move a volume of data by a deadline.
    volume: Optional[Volume]
    #: The windows of a recurrence, each spelled out.
    windows: List[Window]


class Amount(TypedDict, total=False):
    """A new amount of a part, in one of the units of :class:`PartWish`, which must be the part's."""

    #: Of a disk part: the rate, bytes a second.
    bytes_per_s: Optional[int]
    #: Of a processor part: cores.
    cores: Optional[float]
    #: Of a counted resource: pieces.
    count: Optional[int]
    #: The index of the part, from 0.
    part: int
    #: Of a network part: the rate, bit/s.
    rate: Optional[int]


class Change(TypedDict, total=False):
    """A change of a reservation; a field that is left out stays as it was."""

    #: New amounts of single parts, but not of the hops of a path: these have one rate.
    amounts: List[Amount]
    #: A new end; ``"forever"``: open.
    end: Optional[str]
    #: The rate from the first host to the second, bit/s.
    forward: Optional[int]
    #: Another label.
    label: Optional[str]
    #: The rate back, bit/s.
    reverse: Optional[int]
    #: A new start.
    start: Optional[str]
    #: Windows to give back: of every part those that overlap one of these. One that runs ends now.
    without: List[Window]


class BindWish(TypedDict, total=False):
    """A binding. Give either ``flow`` (for a reservation between two hosts) or ``part`` and ``binding``."""

    #: The flow, process or control group; None: none any more.
    binding: Optional[Binding]
    #: The packets between the two hosts.
    flow: Optional[Ports]
    #: The part, from 0.
    part: Optional[int]


class _WebhookWishRequired(TypedDict):
    #: The URL: ``https``, or ``mailto:NAME@HOST``; allowed by the broker's configuration.
    url: str


class WebhookWish(_WebhookWishRequired, total=False):
    """A request for a webhook."""

    #: Report only these kinds of events, such as ``ends_soon``; none: all.
    events: List[EventWord]
    #: Report only events of this reservation; None: of all that the caller may see.
    reservation: Optional[str]
    #: The secret that signs deliveries, 16 to 128 characters; None: the broker draws one.
    secret: Optional[str]
