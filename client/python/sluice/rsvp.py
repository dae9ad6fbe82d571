"""RSVP (RFC 2205) for programs: senders, receivers, reservations and their events, through this machine's agent.

    from sluice import rsvp

    with rsvp.Session.open("10.0.2.2", 5004) as session:              # at the receiver
        session.receive()
        for event in session.events():
            if isinstance(event, rsvp.PathEvent):
                session.reserve("ff", rsvp.FlowSpec(event.tspec), [event.sender])
            elif isinstance(event, rsvp.Confirmed):
                print("reserved for", event.sender)

    with rsvp.Session.open("10.0.2.2", 5004) as session:              # at the sender
        session.send("10.0.0.1", 5004, rsvp.Tspec("1mbit", bucket=4000))

``AsyncSession`` is the same with ``await``.
"""

from ._rsvp_async import AsyncSession
from ._rsvp_sync import Session
from ._signal import (
    Adspec,
    AgentAway,
    Confirmed,
    ErrorEvent,
    FlowSpec,
    PathEvent,
    PathGone,
    ResvEvent,
    ResvGone,
    Sender,
    SessionEvent,
    Tspec,
)

__all__ = [
    "Adspec",
    "AgentAway",
    "AsyncSession",
    "Confirmed",
    "ErrorEvent",
    "FlowSpec",
    "PathEvent",
    "PathGone",
    "ResvEvent",
    "ResvGone",
    "Sender",
    "Session",
    "SessionEvent",
    "Tspec",
]
