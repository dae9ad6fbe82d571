#!/usr/bin/env python3
"""Both ends of a reservation by RSVP (RFC 2205), each of which works with any other implementation at the far end.

    python3 examples/rsvp.py send 10.0.2.2:5004 10.0.0.1:5004 --rate 1mbit --for 20s
    python3 examples/rsvp.py receive 10.0.2.2:5004

The sender says what it sends; the receiver reserves what the first sender announces, and ends when that is confirmed.
"""

import argparse
import sys
import time

import sluice
from sluice import rsvp


def send(session, source, rate, seconds):
    address, port = source.rsplit(":", 1)
    session.send(address, int(port), rsvp.Tspec(rate, bucket=4000))
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        event = session.event(left)
        if isinstance(event, rsvp.ResvEvent):
            print("reserved: %d bit/s" % event.flowspec.tspec.rate, flush=True)
        elif isinstance(event, rsvp.ErrorEvent):
            print("refused by %s: %s" % (event.node, event.text or event.meaning), flush=True)


def receive(session):
    session.receive()
    for event in session.events():
        if isinstance(event, rsvp.PathEvent):
            whose = (event.sender.src, event.sender.src_port, event.tspec.rate, event.adspec.hops, event.adspec.mtu)
            print("path: %s:%d sends %d bit/s, %d hops, MTU %d" % whose, flush=True)
            session.reserve("ff", rsvp.FlowSpec(event.tspec), [event.sender])
        elif isinstance(event, rsvp.Confirmed):
            print("confirmed: %d bit/s from %s:%d" % (event.flowspec.tspec.rate, event.sender.src, event.sender.src_port), flush=True)
            return 0
        elif isinstance(event, rsvp.ErrorEvent):
            print("refused by %s: %s" % (event.node, event.text or event.meaning), flush=True)
            return 1
    return 1


if __name__ == "__main__":
    said = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    said.add_argument("what", choices=("send", "receive"))
    said.add_argument("destination", help="ADDRESS:PORT of the receiver")
    said.add_argument("source", nargs="?", help="of send: ADDRESS:PORT of this host")
    said.add_argument("--rate", default="1mbit", help="of send: the token rate (default: 1mbit)")
    said.add_argument("--for", dest="span", default="20s", help="of send: for how long (default: 20s)")
    said = said.parse_args()
    host, port = said.destination.rsplit(":", 1)
    with rsvp.Session.open(host, int(port)) as session:
        if said.what == "send":
            send(session, said.source, said.rate, sluice.duration(said.span))
        else:
            sys.exit(receive(session))
