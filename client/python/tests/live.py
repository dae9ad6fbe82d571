"""Every call of the book against a real broker over real agents: python3 live.py WHERE CA CERTIFICATE KEY A B.

Run by client/cli/tests/agents/remote: A and B are the ends of the seed's testbed; the agents' policy lets the caller have 8 Mbit/s,
and the broker's configuration allows webhooks below https://hooks.example.org/sluice/.
"""

import asyncio
import datetime
import sys

import sluice

where, ca, certificate, key, A, B = sys.argv[1:]
files = {"ca": ca, "certificate": certificate, "key": key}
HOOK = "https://hooks.example.org:443/sluice/a"


def refused(kind, call):
    try:
        call()
    except kind as problem:
        return problem
    raise AssertionError("not refused with %s" % kind)


def synchronous():
    broker = sluice.Broker(where, **files)
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    names = {one.resource for one in broker.resources(tomorrow, tomorrow + datetime.timedelta(hours=1))}
    assert {"yosemite/net/to-maui", "maui/net/to-glenwood", "glenwood/net/to-maui"} <= names, names
    hops = broker.paths(A, B).forward[0].hops
    assert [hop.resource for hop in hops] == ["yosemite/net/to-maui", "maui/net/to-glenwood"], hops
    most = broker.enquire(A, B, duration="1h")
    assert most.accepted and most.forward > 8_000_000 and most.reverse > 8_000_000, most
    film = broker.reserve(A, B, forward="6mbit", reverse="500kbit", duration="1h", label="film", key="live-1")
    assert broker.reserve(A, B, forward="6mbit", reverse="500kbit", duration="1h", label="film", key="live-1").id == film.id
    assert (film.state, film.owner, film.forward, film.reverse) == ("active", "alice", 6_000_000, 500_000), film
    film.bind(4000, 5004, protocol="udp")
    film.bind_part(0, {"flow": {"src": A, "dst": B, "protocol": 17, "src_port": 4001, "dst_port": 5004}})
    film.modify(forward="7mbit", duration="30m", label="a film")
    assert film.refresh().forward == 7_000_000 and broker.reservation(film.id).label == "a film"
    assert refused(sluice.NotAllowed, lambda: film.modify(forward="9mbit")).status == 403
    problem = refused(sluice.NoRoom, lambda: broker.reserve(A, B, forward="5mbit", duration=60))
    assert problem.refusal["resource"].endswith("net/to-maui"), problem.refusal
    assert any(one.sort in ("later", "slower") for one in problem.alternatives), problem.alternatives
    assert [one.id for one in broker.reservations(label="a film")] == [film.id]
    heard = []
    for event in film.events(after="yosemite:0"):
        heard.append(event.event)
        if event.event == "modified":
            break
    assert "created" in heard and "bound" in heard, heard
    stream = broker.events(after="maui:0")
    assert next(stream).reservation == film.id
    stream.close()
    made = broker.webhook(HOOK, reservation=film.id)
    assert [one.url for one in broker.webhooks()] == [HOOK] and made.secret
    broker.remove_webhook(made.id)
    assert broker.webhooks() == []
    assert film.cancel().state == "cancelled" and film.history()[-1].event == "cancelled"
    with broker.reserve(parts=[{"resource": "yosemite/net/to-maui", "rate": 1_000_000}], start=tomorrow, duration="1h", hold=60) as held:
        assert held.state == "held" and held.commit().state == "booked"
    bulk = broker.reserve(A, B, volume=1_000_000, deadline=tomorrow)
    assert bulk.forward and bulk.cancel().state == "cancelled"
    first = broker.reserve(A, B, forward="8mbit", duration="1h")
    later = broker.reserve(A, B, forward="8mbit", earliest=True, duration="1h")
    assert (first.state, later.state) == ("active", "booked"), (first, later)
    first.cancel()
    later.cancel()
    share = broker.reserve(A, B, forward="4mbit", background=True, duration="forever")
    share.cancel()


async def asynchronous():
    broker = sluice.AsyncBroker(where, **files)
    most, resources, paths = await asyncio.gather(broker.enquire(A, B, duration=60), broker.resources(), broker.paths(A, B))
    assert most.forward > 8_000_000 and len(resources) == 5 and paths.reverse[0].hops[0].agent == "glenwood", (most, paths)
    async with await broker.reserve(A, B, forward="2mbit", duration=600, hold=30, label="async") as film:
        assert (await film.commit()).state == "active"
        await film.bind(4000, 5004, protocol=17)
        await film.bind_part(0, None)
        await film.modify(forward="1mbit")
        assert (await film.refresh()).forward == 1_000_000
        assert (await broker.reservation(film.id)).label == "async"
        assert [one.id for one in await broker.reservations(label="async")] == [film.id]
        async for event in broker.events(after="yosemite:0", reservation=film.id):
            if event.event == "modified":
                break
        async for event in film.events(after="yosemite:0"):
            if event.event == "modified":
                break
        made = await broker.webhook(HOOK)
        assert len(await broker.webhooks()) == 1
        await broker.remove_webhook(made.id)
    assert film.state == "cancelled" and (await film.history())[-1].event == "cancelled"


synchronous()
asyncio.run(asynchronous())
print("all calls answered as they should")
