#!/usr/bin/env python3
"""The UDP streamer of Figure 2 (Foster, Roy, Sander, Winkler, "End-to-End Quality of Service for High-End Applications").

    python3 examples/udp_streamer.py 10.0.0.1 10.0.2.2 --rate 6mbit --for 20s

Run on host A, with a broker that knows the agents between A and B.
"""

import argparse
import socket
import time

import sluice

WINDOW = "60min"


def udp_streamer(broker, a, b, done, flow):
    stream, port_a, port_b = establish_socket_connection(a, b)
    most = broker.enquire(a, b, duration=WINDOW)
    rate = flow if most.forward > flow else most.forward
    reservation = broker.reserve(a, b, forward=rate, reverse=0, duration=WINDOW)
    reservation.bind(port_a, port_b, protocol="udp")
    while not done():
        send_for_a_while(stream, rate)
        most = broker.enquire(a, b, duration=WINDOW)
        if most.forward > 0 and rate < flow:
            rate = min(most.forward + rate, flow)
            reservation.modify(forward=rate, duration=WINDOW)
    return reservation


def establish_socket_connection(a, b, port=5004):
    stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stream.bind((a, 0))
    stream.connect((b, port))
    return stream, stream.getsockname()[1], port


def send_for_a_while(stream, rate, seconds=1.0, size=1000):
    """UDP at a rate: a packet of IP is its data and 28 octets of headers."""
    every = (size + 28) * 8 / max(rate, 1)
    begun, sent = time.monotonic(), 0
    while (now := time.monotonic() - begun) < seconds:
        if sent * every > now:
            time.sleep(min(sent * every - now, 0.01))
            continue
        try:
            stream.send(bytes(size))
        except OSError:  # a full buffer, or nobody listens yet
            pass
        sent += 1


if __name__ == "__main__":
    said = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    said.add_argument("a", help="our own address")
    said.add_argument("b", help="the other host's")
    said.add_argument("--rate", default="6mbit", help="what the application needs (default: 6mbit)")
    said.add_argument("--for", dest="span", default="20s", help="for how long (default: 20s)")
    said.add_argument("--broker", help="a Unix socket, or https://HOST:PORT (default: this machine's)")
    said = said.parse_args()
    until = time.monotonic() + sluice.duration(said.span)
    handle = udp_streamer(sluice.Broker(said.broker), said.a, said.b, lambda: time.monotonic() > until, sluice.rate(said.rate))
    print("%s: %.3f Mbit/s reserved at the end" % (handle.id, handle.forward / 1e6))
    handle.cancel()
