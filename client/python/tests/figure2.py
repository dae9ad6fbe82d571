"""What stands around the Figure 2 program in its test: who receives, who floods, who was there before.

Run by client/cli/tests/agents/broker.rs.
"""

import socket
import sys
import time

import sluice


def receive(out):
    """Counts what comes to the streamer's port, second by second, into a file."""
    into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    into.bind(("", 5004))
    into.recv(2048)
    into.settimeout(0.1)
    count, until = 1, time.monotonic() + 1
    while True:
        try:
            into.recv(2048)
            count += 1
        except socket.timeout:
            pass
        if time.monotonic() >= until:
            with open(out, "a") as lines:
                lines.write("%d\n" % count)
            count, until = 0, until + 1


def flood(a, b):
    """20 Mbit/s of best effort over a link of 10."""
    into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    into.bind((a, 0))
    into.connect((b, 9))
    begun, sent = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - begun) * 2500)
        for _ in range(min(due - sent, 100)):
            try:
                into.send(bytes(972))
            except OSError:
                pass
        sent = due
        time.sleep(0.002)


def block(where, a, b, leave, seconds):
    """Has all but so much for so long; then the streamer's reservation must grow, and be in force everywhere."""
    broker = sluice.Broker(where)
    most = broker.enquire(a, b, duration="1h").forward
    other = broker.reserve(a, b, forward=most - sluice.rate(leave), duration="1h", label="other")
    assert broker.enquire(a, b, duration="1h").forward <= sluice.rate(leave) + 10_000
    time.sleep(float(seconds))
    (film,) = [one for one in broker.reservations() if one.id != other.id]
    assert film.forward <= sluice.rate(leave) + 10_000, film.forward
    other.cancel()
    until = time.monotonic() + 5
    while film.refresh().forward < 4_000_000 or {part.enforced for part in film.parts} != {"in_force"}:
        assert time.monotonic() < until, (film.forward, film.parts)
        time.sleep(0.1)
    print(film.forward, [(part.resource, part.enforced) for part in film.parts])


if __name__ == "__main__":
    {"receive": receive, "flood": flood, "block": block}[sys.argv[1]](*sys.argv[2:])
