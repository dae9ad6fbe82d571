"""Two brokers of which the first named is a standby: every call goes on to the other. Arguments: their sockets."""

import asyncio
import sys

import sluice


def waiting(where: str) -> str:
    broker = sluice.Broker(where)
    made = broker.reserve(parts=[{"resource": "a/net/eth0", "rate": 1000}, {"resource": "b/net/eth0", "rate": 1000}], duration="forever")
    assert made.state == "active", made
    # Another one: a key of its own was drawn for each.
    more = broker.reserve(parts=[{"resource": "a/net/eth0", "rate": 1000}], duration="forever")
    assert more.id != made.id
    for event in broker.events(after="0"):
        if event.reservation == made.id and event.event == "created":
            break
    more.cancel()
    return made.id


async def awaited(where: str, ident: str) -> None:
    broker = sluice.AsyncBroker(where)
    found = await broker.reservation(ident)
    async for event in broker.events(after="0"):
        if event.reservation == ident:
            break
    await found.cancel()
    assert found.state == "cancelled", found


def main() -> None:
    standby, leader = sys.argv[1:]
    both = "unix:%s, unix:%s" % (standby, leader)
    ident = waiting(both)
    asyncio.run(awaited(both, ident))
    try:
        sluice.Broker("unix:" + standby).resources()
        raise AssertionError("a standby alone answers nothing")
    except sluice.Unavailable as error:
        assert error.kind == "standby" and "leads" in error.detail, error
    try:
        sluice.Broker("unix:%s,unix:/none" % standby, timeout=0.5).resources()
        raise AssertionError("nobody leads")
    except sluice.Unavailable:
        pass
    print("all went on")


if __name__ == "__main__":
    main()
