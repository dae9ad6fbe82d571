"""Sessions of RSVP over real agents: python3 rsvp.py WHAT SOCKET. Run by client/cli/tests/agents/signalling.rs on the seed's testbed.

``receive`` and ``send`` are the two halves, waiting; ``areceive`` is the first with ``await``. They print what happens, and do what
they are told by standard input.
"""

import asyncio
import os
import queue
import sys
import threading
import time

from sluice import Problem, Unavailable, rsvp

WHAT, SOCKET = sys.argv[1:]
DST, PORT = "10.0.2.2", 5004
SRC = "10.0.0.1"


def say(text):
    print(text, flush=True)


def words(event):
    """An event as one line."""
    if isinstance(event, rsvp.PathEvent):
        a = event.adspec
        return "path %s:%d r=%d hops=%d mtu=%d break=%s" % (event.sender.src, event.sender.src_port, event.tspec.rate, a.hops, a.mtu, a.break_bit)
    if isinstance(event, rsvp.ResvEvent):
        return "resv %s:%d %s r=%d" % (event.sender.src, event.sender.src_port, event.style, event.flowspec.tspec.rate)
    if isinstance(event, rsvp.Confirmed):
        return "confirm %s:%d r=%d" % (event.sender.src, event.sender.src_port, event.flowspec.tspec.rate)
    if isinstance(event, rsvp.ErrorEvent):
        filters = ",".join("%s:%d" % (one.src, one.src_port) for one in event.filters)
        said = (event.resv, event.code, event.node, event.in_place, event.not_guilty, filters, event.flowspec.tspec.rate, event.text)
        return "error resv=%s code=%d node=%s in_place=%s not_guilty=%s %s r=%d %s" % said
    if isinstance(event, (rsvp.PathGone, rsvp.ResvGone)):
        return "%s %s:%d" % ("path_gone" if isinstance(event, rsvp.PathGone) else "resv_gone", event.sender.src, event.sender.src_port)
    return "away"


def traffic(rate):
    return rsvp.Tspec(rate, bucket=4000)


def refused(kind, call):
    try:
        call()
    except kind as no:
        return no
    raise AssertionError("not refused with %s" % kind)


def misuse(session):
    """What makes no sense is said, and changes nothing."""
    spec = rsvp.FlowSpec(traffic("1mbit"))
    for style, specs, senders in (("xx", spec, []), ("ff", spec, []), ("wf", spec, [(SRC, 1)]), ("se", [spec, spec], [(SRC, 1)])):
        refused(ValueError, lambda: session.reserve(style, specs, senders))
    refused(Problem, lambda: session.send(SRC, 5004, rsvp.Tspec("1mbit", bucket=10)))
    refused(Problem, lambda: session.send(SRC, 5004, traffic("1mbit"), ttl=0))
    refused(Unavailable, lambda: rsvp.Session.open(DST, PORT, socket="/nowhere.sock"))
    closed = rsvp.Session.open(DST, PORT, socket=SOCKET)
    closed.close()
    refused(Unavailable, lambda: closed.receive())
    assert list(closed.events()) == []


def obey(session, line):
    """A command: its name, ports of senders, a rate."""
    name, *rest = line.split()
    if name == "send":
        session.send(SRC, int(rest[0]), traffic(rest[1]))
    elif name == "silent":
        session.send_no_more(rsvp.Sender(SRC, int(rest[0])))
    elif name == "misuse":
        misuse(session)
    elif name == "unreserve":
        session.reserve_no_more()
    elif name == "fork":
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    elif name in ("ff", "se", "wf"):
        *ports, rate = rest
        spec = rsvp.FlowSpec(traffic(rate))
        session.reserve(name, [spec] * len(ports) if name == "ff" else spec, [(SRC, int(port)) for port in ports])
    elif name == "guaranteed":
        session.reserve("ff", rsvp.FlowSpec(traffic(rest[1]), rate=rest[1]), [(SRC, int(rest[0]))])


def waiting():
    lines = queue.Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in sys.stdin] + [lines.put(None)], daemon=True).start()
    with rsvp.Session.open(DST, PORT, socket=SOCKET) as session:
        if WHAT == "receive":
            session.receive()
        say("began")
        while True:
            event = session.event(0.05)
            if event is not None:
                say(words(event))
            if not lines.empty():
                line = lines.get()
                if line is None:
                    return
                try:
                    obey(session, line)
                    say("did " + line.split()[0])
                except Unavailable as no:
                    say("did %s: %s" % (line.split()[0], no.kind))


async def awaited():
    async with await rsvp.AsyncSession.open(DST, PORT, socket=SOCKET) as session:
        await session.receive()
        say("began")
        async for event in session.events():
            say(words(event))
            if isinstance(event, rsvp.PathEvent):
                assert event.sender in session.senders
                await session.reserve("ff", rsvp.FlowSpec(event.tspec), [event.sender])
            elif isinstance(event, rsvp.Confirmed):
                return


if WHAT == "areceive":
    asyncio.run(awaited())
    say("done")
else:
    waiting()
