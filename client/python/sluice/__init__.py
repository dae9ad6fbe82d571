"""Guaranteed shares of network, processor and disk, now or for later.

    import sluice

    broker = sluice.Broker()                                 # this machine's own, over its Unix socket
    most = broker.enquire("10.0.0.1", "10.0.2.2", duration=3600)
    film = broker.reserve("10.0.0.1", "10.0.2.2", forward=min(most.forward, sluice.rate("8mbit")), duration=3600)
    film.bind(4000, 5004, protocol="udp")
    ...
    film.cancel()

``AsyncBroker`` is the same with ``await``. ``sluice.together`` is for several parts as one, with strategies for what is refused or
breaks. ``sluice.rsvp`` signals by RSVP, ``sluice.boomerang`` reserves by Boomerang, with one message and no broker.
The standard library is all that is needed.
"""

from . import boomerang, rsvp, together
from ._async import AsyncBroker, AsyncReservation
from ._documents import (
    Alternative,
    DomainHop,
    DomainPath,
    EnquiredPart,
    Enquiry,
    Event,
    Hop,
    Part,
    Path,
    Paths,
    Resource,
    Step,
    Topology,
    Webhook,
)
from ._errors import Malformed, NotAllowed, NotFound, NoRoom, Problem, Unavailable
from ._sync import Broker, Reservation
from ._units import duration, rate

__version__ = "0.1.0"
__all__ = [
    "Alternative",
    "AsyncBroker",
    "AsyncReservation",
    "Broker",
    "DomainHop",
    "DomainPath",
    "EnquiredPart",
    "Enquiry",
    "Event",
    "Hop",
    "Malformed",
    "NoRoom",
    "NotAllowed",
    "NotFound",
    "Part",
    "Path",
    "Paths",
    "Problem",
    "Reservation",
    "Resource",
    "Step",
    "Topology",
    "Unavailable",
    "Webhook",
    "boomerang",
    "duration",
    "rate",
    "rsvp",
    "together",
]
