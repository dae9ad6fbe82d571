"""Co-reservations over real agents: python3 together.py SLUICE FOLDER NAME=SOCKET...

Run by client/cli/tests/agents/together.rs over the seed's testbed; maui and glenwood have four licences each, and the way
between 10.0.0.1 and 10.0.2.2 has 10 Mbit/s. This starts and kills the broker itself.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time

import sluice
from sluice import together as t

SLUICE, FOLDER, *AGENTS = sys.argv[1:]
A, B = "10.0.0.1", "10.0.2.2"
SOCKET = FOLDER + "/together.sock"
SOLVER = ("maui/licence/solver", "glenwood/licence/solver")


class RunningBroker:
    """A broker of this test, over all agents."""

    def __init__(self):
        words = [SLUICE, "broker", "--socket", SOCKET, "--state", FOLDER + "/together"]
        log = open(FOLDER + "/together.log", "ab")
        self.process = subprocess.Popen(words + [word for one in AGENTS for word in ("--agent", one)], stdout=log, stderr=log)
        log.close()

    def kill(self):
        self.process.kill()
        self.process.wait()


def patient(what, condition, seconds=30):
    until = time.monotonic() + seconds
    while True:
        try:
            found = condition()
        except sluice.Unavailable:
            found = None
        if found:
            return found
        assert time.monotonic() < until, what
        time.sleep(0.05)


def licences(count, **more):
    return t.Part("solver", *(t.Amount(one, count=count) for one in SOLVER), **more)


def network(rate, **more):
    return t.Part("network", t.Hosts(A, B, forward=rate), **more)


def resources(one):
    return {part.resource for part in one.reservation.parts}


def nothing_is_left(broker):
    patient("everything was given back", lambda: not broker.reservations())


def refusals(broker):
    taken = broker.reserve(parts=[{"resource": SOLVER[0], "count": 3}], duration="1h", label="other")
    # Another place.
    told = []
    film = broker.together([network("2mbit"), licences(2, strategy=[t.Another()])], duration="1h", told=told.append)
    assert film.chosen == {"network": "%s > %s" % (A, B), "solver": SOLVER[1]} and film.reservation.state == "active", film
    assert [one.news for one in told] == ["refused", "made"] and (told[0].part, told[0].where) == ("solver", SOLVER[0]), told
    # None is left: which part, where, why, and what was tried; and nothing was reserved of the other part.
    try:
        broker.together([network("2mbit"), licences(3)], strategy=[t.Another()], duration="1h")
        raise AssertionError("more licences than there are")
    except t.NotTogether as no:
        assert (no.part, no.where, len(no.tried)) == ("solver", SOLVER[1], 2), no
        assert no.refusal["free"] == 2 and "no strategy is left for solver" in str(no) and SOLVER[0] in str(no), no
    assert len(broker.reservations()) == 2
    # The limits: of requests, and of time.
    for limit in ({"attempts": 2}, {"patience": 1.0}):
        try:
            broker.together([licences(4)], strategy=[t.Retry(1000, pause=0.4, factor=1)], duration="1h", **limit)
            raise AssertionError("more licences than there are")
        except t.NotTogether as no:
            assert (no.kind, len(no.tried)) == ("refused", 2) if "attempts" in limit else no.kind == "late", no
    # Smaller, down to a floor; and not below it.
    small = broker.together([network("9mbit", strategy=[t.Smaller(0.5)])], duration="1h")
    assert 4_500_000 <= small.reservation.forward < 9_000_000, small.reservation.forward
    small.cancel()
    try:
        broker.together([network("9mbit", strategy=[t.Smaller(0.99)])], duration="1h")
        raise AssertionError("more than there is")
    except t.NotTogether as no:
        assert no.part == "network" and no.where.endswith("net/to-maui"), (no.part, no.where)
    film.cancel()
    # Again, until somebody gives something back.
    told = []
    threading.Timer(1.0, taken.cancel).start()
    same = broker.together([licences(4)], strategy=[t.Retry(50, pause=0.2, factor=1)], duration="1h", told=told.append)
    assert same.chosen == {"solver": SOLVER[0]} and [one.news for one in told[:2]] == ["refused", "pause"], (same, told)
    same.cancel()
    # Later: behind what is there, all parts together.
    taken = broker.reserve(parts=[{"resource": one, "count": 4} for one in SOLVER], duration=120)
    both = broker.together([network("2mbit"), licences(1)], strategy=[t.Another(), t.Later("10min")], duration="1h")
    starts = {step.start for part in both.reservation.parts for step in part.steps}
    assert both.reservation.state == "booked" and len(starts) == 1 and both.chosen["solver"] == SOLVER[0], (both, starts)
    assert 100 < (starts.pop() - taken.created).total_seconds() < 200
    both.cancel()
    taken.cancel()
    # What goes together moves together: the way to a server and what is reserved there.
    far = [t.Hosts(A, B, forward="1mbit"), t.Amount(SOLVER[1], count=1)]
    near = [t.Hosts(A, "10.0.1.2", forward="1mbit"), t.Amount(SOLVER[0], count=5)]
    server = broker.together([t.Part("server", near, far, strategy=[t.Another()])], duration="1h")
    assert server.chosen == {"server": "%s > %s + %s" % (A, B, SOLVER[1])}, server.chosen
    server.cancel()
    # A name that the caller has given to something else is not touched.
    strange = broker.reserve(parts=[{"resource": "yosemite/net/to-maui", "rate": 1000}], duration="1h", label="taken")
    try:
        broker.together([licences(1)], duration="1h", name="taken")
        raise AssertionError("it is called so as well")
    except sluice.Problem as no:
        assert no.kind == "name_used" and strange.id in str(no) and strange.refresh().state == "active", no
    strange.cancel()
    for wrong in ([], [licences(1), licences(1)], [network(1), t.Part("n2", t.Hosts(A, B, forward=1))]):
        try:
            broker.together(wrong, duration="1h")
            raise AssertionError(wrong)
        except ValueError:
            pass
    nothing_is_left(broker)


def break_at(one, agent, way):
    """An operator cancels an agent's part of a reservation, at the agent."""
    (part,) = {(part.handle, part.agent) for part in one.parts if (part.agent, part.way) == (agent, way)}
    socket = dict(word.split("=", 1) for word in AGENTS)[agent]
    subprocess.run([SLUICE, "cancel", part[0], "--socket", socket], check=True, stdout=subprocess.DEVNULL)


def until(watching, *names):
    """The news until the last of these, which must come in this order."""
    names, heard = list(names), []
    for news in watching:
        heard.append(news)
        if news.news == names[0]:
            names.pop(0)
            if not names:
                return heard
    raise AssertionError((names, heard))


def repairs(broker, running):
    film = broker.together([network("3mbit"), licences(2)], strategy=[t.Another(), t.Retry(3)], duration="1h", name="film")
    watching = film.watch()
    assert next(watching).heard.text == "active"
    first = film.reservation
    assert SOLVER[0] in resources(film)
    # The part breaks at maui: the new one is whole before the old one goes.
    break_at(first, "maui", None)
    heard = until(watching, "broken", "made", "gave_back", "repaired")
    broken = next(one for one in heard if one.news == "broken")
    assert (broken.part, broken.where) == ("solver", "maui"), broken
    assert film.chosen["solver"] == SOLVER[1] and film.reservation.id != first.id and film.reservation.state == "active"
    assert [one.id for one in broker.reservations()] == [film.reservation.id] and first.refresh().state == "cancelled"
    # The end stays where it was.
    ends = [max(step.end for part in one.parts for step in part.steps) for one in (first, film.reservation)]
    assert ends[0] == ends[1], ends
    # The broker goes away and comes back, and what broke meanwhile is repaired.
    second = film.reservation
    running.kill()
    break_at(second, "glenwood", None)
    running = RunningBroker()
    until(watching, "broken", "repaired")
    assert film.chosen["solver"] == SOLVER[0] and second.id != film.reservation.id
    # There is no room for two: what is left of the old one makes room for the new one.
    film.cancel()
    assert until(watching, "over")[-1].text.endswith("is cancelled")
    wide = broker.together([network("6mbit", strategy=[t.Retry(3)]), licences(1)], duration="1h")
    watching = wide.watch()
    next(watching)
    break_at(wide.reservation, "maui", "forward")
    heard = until(watching, "broken", "gave_back", "made", "repaired")
    assert heard[-1].part == "network" and wide.reservation.forward == 6_000_000, heard
    # No strategy: it is said, and nothing is kept of the rest.
    wide.cancel()
    until(watching, "over")
    frail = broker.together([network("1mbit"), licences(1)], duration="1h")
    watching = frail.watch()
    next(watching)
    break_at(frail.reservation, "maui", None)
    try:
        until(watching, "never")
    except t.NotTogether as no:
        assert no.kind == "broken" and "solver" in str(no), no
    nothing_is_left(broker)
    return running


def broker_away(broker, running):
    """A broker that is away is waited for, within the patience."""
    running.kill()
    try:
        broker.together([licences(1)], duration="1h", patience=0.5)
        raise AssertionError("no broker was there")
    except t.NotTogether as no:
        assert no.kind == "late" and "no broker answers" in str(no), no
    again = []
    threading.Timer(1.0, lambda: again.append(RunningBroker())).start()
    with broker.together([licences(1)], duration="1h") as one:
        assert one.reservation.state == "active"
    nothing_is_left(broker)
    return again[0]


CHILD = """
import sys, sluice
from sluice import together as t
parts = [t.Part("network", t.Hosts(%r, %r, forward="2mbit")), t.Part("solver", *(t.Amount(one, count=1) for one in %r))]
one = sluice.Broker(sys.argv[1]).together(parts, strategy=[t.Another(), t.Retry(5)], duration="1h", name="killed")
print(one.reservation.id, flush=True)
""" % (A, B, SOLVER)


def killed(broker):
    """A program that is killed at any moment leaves one reservation or none; the next one of its name has one."""
    chance = random.Random(14)
    print("seed 14")
    seen = {0: 0, 1: 0}
    for _ in range(12):
        child = subprocess.Popen([sys.executable, "-c", CHILD, SOCKET], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        time.sleep(0.05 + chance.random() * 0.35)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        settled = lambda: all(one.state not in ("preparing", "committing", "aborting") for one in broker.reservations())
        patient("what was begun ends", settled)
        left = broker.reservations()
        assert len(left) <= 1 and all(one.state == "active" and len(one.parts) == 4 for one in left), left
        seen[len(left)] += 1
        again = subprocess.run([sys.executable, "-c", CHILD, SOCKET], stdout=subprocess.PIPE, text=True, check=True)
        (one,) = broker.reservations()
        assert one.id == again.stdout.strip() and one.state == "active", (one, again)
        assert not left or left[0].id == one.id, (left, one)
        if chance.random() < 0.7:
            one.cancel()
    print("killed before and after: %r" % seen)
    for one in broker.reservations():
        one.cancel()


async def asynchronous():
    broker = sluice.AsyncBroker(SOCKET)
    taken = await broker.reserve(parts=[{"resource": SOLVER[0], "count": 3}], duration="1h")
    async with await broker.together([network("1mbit"), licences(2)], strategy=[t.Another()], duration="1h") as film:
        assert film.chosen["solver"] == SOLVER[1]
        await taken.cancel()
        broken = False
        async for news in film.watch():
            if news.news == "heard" and not broken:
                broken = True
                await asyncio.get_running_loop().run_in_executor(None, break_at, film.reservation, "glenwood", None)
            if news.news == "repaired":
                break
        assert film.chosen["solver"] == SOLVER[0] and film.reservation.state == "active"
    assert film.reservation.state == "cancelled" and not await broker.reservations()


os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), os.path.dirname(sluice.__path__[0])]))
running = RunningBroker()
try:
    broker = sluice.Broker(SOCKET)
    patient("all agents answer", lambda: len({one.resource.split("/")[0] for one in broker.resources()}) == len(AGENTS))
    for what in (refusals, killed):
        begun = time.monotonic()
        what(broker)
        print("%s: %.1f s" % (what.__name__, time.monotonic() - begun))
    running = repairs(broker, running)
    running = broker_away(broker, running)
    asyncio.run(asynchronous())
    print("what belongs together was reserved together")
finally:
    running.kill()
