"""Every call of the package against a broker: python3 calls.py WHERE [CA CERTIFICATE KEY]. The broker has five agents in a row.

Run by service/broker/tests/broker/python.rs, with the built wheel on the path.
"""

import asyncio
import datetime
import sys
import threading

import sluice

where = sys.argv[1]
files = dict(zip(("ca", "certificate", "key"), sys.argv[2:]))
A, B = "10.0.1.9", "10.0.2.9"


def refused(kind, call):
    try:
        call()
    except kind as problem:
        return problem
    raise AssertionError("not refused with %s" % kind)


def synchronous():
    broker = sluice.Broker(where, **files)
    assert len(broker.resources()) == 12, broker.resources()
    most = broker.enquire(A, B, duration="1h")
    assert (most.accepted, most.forward, most.reverse) == (True, 10_000_000, 10_000_000), most
    film = broker.reserve(A, B, forward="6mbit", reverse=500_000, duration=3600, label="film", key="film-1")
    again = broker.reserve(A, B, forward="6mbit", reverse=500_000, duration=3600, label="film", key="film-1")
    assert (film.id, film.state) == (again.id, "active"), (film, again)
    assert (film.forward, film.reverse) == (6_000_000, 500_000)
    film.bind(4000, 5004, protocol="udp")
    flows = [part.binding["flow"]["dst_port"] for part in film.parts]
    assert sorted(set(flows)) == [4000, 5004], flows
    film.modify(forward="8mbit", duration="30m")
    assert film.refresh().forward == 8_000_000
    problem = refused(sluice.NoRoom, lambda: film.modify(forward="11mbit"))
    assert problem.status == 409 and film.refresh().forward == 8_000_000
    problem = refused(sluice.NoRoom, lambda: broker.reserve(A, B, forward="3mbit", duration=60))
    assert [one.sort for one in problem.alternatives] == ["slower"], problem.alternatives
    assert [one.id for one in broker.reservations(label="film")] == [film.id]
    assert broker.reservation(film.id).label == "film"
    refused(sluice.NotFound, lambda: broker.reservation("0" * 26))
    refused(sluice.Malformed, lambda: broker.reserve(A, "192.0.2.1", forward=1, duration=60))
    refused(ValueError, lambda: broker.enquire(A, B, start=datetime.datetime(2026, 1, 1)))
    refused(sluice.NotAllowed, lambda: broker.webhook("https://example.org/x"))
    assert broker.webhooks() == []
    hops = broker.paths(A, B).forward[0].hops
    assert [hop.resource for hop in hops] == ["a/net/b", "b/net/e", "e/net/out"], hops
    known = broker.topology(A, B, rate="6mbit", start="2030-01-01T00:00:00Z", end="2030-01-01T01:00:00Z")
    assert (known.own, known.domains, known.paths) == (None, [], []), known
    heard = []
    stream = broker.events(after="a:0")
    while not heard or heard[-1].event != "modified":
        heard.append(next(stream))
    assert heard[0].event == "created" and heard[0].reservation == film.id
    # Its own events begin with how it is, and end when it is over.
    own = film.events()
    first = next(own)
    assert (first.event, first.text, first.reservation) == ("state", "active", film.id), first
    film.cancel()
    rest = list(own)
    assert rest[-1].event == "state" and rest[-1].text == "cancelled", rest
    # What a key made and is over does not come back without a word; for how long must be said.
    over = refused(sluice.Problem, lambda: broker.reserve(A, B, forward="6mbit", reverse=500_000, duration=3600, label="film", key="film-1"))
    assert over.kind == "key_over" and film.id in str(over), over
    assert "for how long" in str(refused(ValueError, lambda: broker.reserve(A, B, forward=1)))
    with broker.reserve(A, B, forward=1000, duration="forever") as endless:
        assert endless.parts[0].steps[0].end is None, endless.parts
    assert film.state == "cancelled" and film.history()[-1].event == "cancelled"
    assert next(event for event in stream if event.event == "cancelled").reservation == film.id
    with broker.reserve(parts=[{"resource": "a/net/in", "rate": 1000}], duration=60, hold=60) as held:
        assert held.state == "held" and held.commit().state == "active"
    assert held.state == "cancelled"


async def asynchronous():
    broker = sluice.AsyncBroker(where, **files)
    most, resources = await asyncio.gather(broker.enquire(A, B, duration=60), broker.resources())
    assert most.forward == 10_000_000 and len(resources) == 12
    async with await broker.reserve(A, B, forward=most.forward, duration=60) as film:
        await film.bind(4000, 5004, protocol=17)
        async for event in broker.events(after="a:0", reservation=film.id):
            if event.event == "bound":
                break
        try:
            await broker.reserve(A, B, forward=most.forward, duration=60)
            raise AssertionError("twice as much as there is")
        except sluice.NoRoom as problem:
            assert problem.refusal["resource"].endswith("net/b"), problem.refusal
        await film.modify(forward="1mbit")
        assert (await film.refresh()).forward == 1_000_000
        async for event in film.events():
            if (event.event, event.text) == ("state", "active"):
                await film.cancel()
        assert film.is_over()
    assert film.state == "cancelled"
    assert await broker.reservations() == []
    assert (await broker.paths(A, B)).reverse[0].hops[0].agent == "e"
    assert (await broker.topology()).own is None


def twins():
    for waits, awaited in ((sluice.Broker, sluice.AsyncBroker), (sluice.Reservation, sluice.AsyncReservation)):
        missing = [name for name in dir(waits) if not name.startswith("_") and not hasattr(awaited, name)]
        assert not missing, "%s lacks %s" % (awaited.__name__, missing)


def units():
    assert sluice.rate("1.5mbit") == 1_500_000 and sluice.rate("125kbps") == 1_000_000 and sluice.rate(7) == 7
    assert sluice.duration("90s") == 90 and sluice.duration(datetime.timedelta(hours=1)) == 3600
    for wrong in ("1.5", "fast", "-1mbit", -1, 1.5, True):
        refused(ValueError, lambda: sluice.rate(wrong))
    away = refused(sluice.Unavailable, lambda: sluice.Broker("/nowhere.sock").resources())
    assert "sluice broker" in str(away)
    refused(sluice.Unavailable, lambda: sluice.boomerang.reserve(B, src_port=1, dst_port=2, forward=1, socket="/nowhere.sock"))


units()
twins()
synchronous()
asyncio.run(asynchronous())
assert threading.active_count() == 1
print("all calls answered as they should")
