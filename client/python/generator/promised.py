"""The public types of the package: what users may rely on, whatever the broker's schemas are called."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict


@dataclass(frozen=True)
class Public:
    """A dataclass of the package."""

    name: str
    #: Its place in the OpenAPI text: see ``OpenApi.at``.
    where: str
    #: Its fields, in the order of its constructor; behind ``*`` they have defaults. ``NAME=SOURCE`` is read from another property,
    #: ``NAME=A.B`` from a property of a property, ``NAME=@`` is given to ``read``; ``NAME?`` is there even if the document lacks it.
    #: The other properties of the schema follow, in the order of the alphabet and with defaults.
    fields: str
    #: Descriptions where the schema has none that fits.
    docs: Dict[str, str] = field(default_factory=dict)
    #: True: it is kept up to date in place, and has no constructor. The others are frozen.
    mutable: bool = False


PUBLIC = (
    Public("Step", "resources.response/resources/timeline", "start end amount"),
    Public(
        "Part",
        "show.response/parts",
        "resource unit kind way agent now enforced fault steps binding * asked installed measured",
    ),
    Public("EnquiredPart", "enquire.response/parts", "resource way kind free granted"),
    Public("Alternative", "enquire.response/refusal/alternatives", "sort parts * resources"),
    Public(
        "Enquiry",
        "enquire.response",
        "accepted forward? reverse? parts reason=refusal.message alternatives=refusal.alternatives",
        {
            "forward": "The highest rate from the first host to the second over the whole window, bit/s; 0: no path is known.",
            "reverse": "The highest rate back, bit/s; 0: no path is known.",
            "reason": "The reason of the refusal, for people; None: it would be accepted.",
        },
    ),
    Public("Resource", "resources.response/resources", "resource unit kind capacity free timeline"),
    Public(
        "Event",
        "history.response/events",
        "id=@ event=@ reservation? agent? way part at? before=from now=to text",
        {
            "id": "The place in the stream: ``events(after=event.id)`` goes on behind it.",
            "event+": "Streams also have ``lost``: some events before the next are no longer kept. The events of one "
            "reservation also have ``state``: its state, in ``text``.",
        },
    ),
    Public("Hop", "paths.response/forward/hops", "agent interface resource"),
    Public("Path", "paths.response/forward", "hops rate_wire_bps"),
    Public("Paths", "paths.response", "forward reverse away"),
    Public("DomainHop", "topology.response/paths/hops", "domain entry=from exit=to"),
    Public("DomainPath", "topology.response/paths", "cost free hops"),
    Public(
        "Topology",
        "topology.response",
        "own domains paths? neighbours",
        {"paths": "The paths between the two hosts, the cheapest first; empty if none were named."},
    ),
    Public("Webhook", "add_webhook.response", "id url secret reservation * failures last_failure"),
    Public(
        "State",
        "show.response",
        "id owner label state created hold_until forward=path.forward reverse=path.reverse parts",
        {
            "forward": "The rate from the first host to the second now, bit/s; None: nothing is reserved in that direction, "
            "or it is not between two hosts.",
            "reverse": "The rate back, bit/s; None likewise.",
        },
        mutable=True,
    ),
)

#: The documents that stay dictionaries: their types' names, by place. What has no name here is called as its schema.
DICTIONARIES = {
    "create.request": "Wish",
    "create.request/path": "PathWish",
    "create.request/path/flow": "Ports",
    "create.request/path/background": "Background",
    "create.request/parts": "PartWish",
    "create.request/parts/binding": "Binding",
    "create.request/parts/binding/flow": "Flow",
    "create.request/volume": "Volume",
    "create.request/windows": "Window",
    "enquire.request": "EnquiryWish",
    "modify.request": "Change",
    "modify.request/amounts": "Amount",
    "bind.request": "BindWish",
    "add_webhook.request": "WebhookWish",
    "enquire.response/refusal": "Refusal",
    "show.response/parts/measured": "Measured",
    "show.response/path": "Ends",
}
