#!/usr/bin/env python3
"""Distance visualization, as in section 2.1 of GARA (Foster, Roy, Sander, Winkler): a machine that renders and the network from it
to a desk, as one reservation. If one machine is taken it is another; if there is less room, a smaller picture; if one breaks,
it is repaired.

    python3 examples/together.py 10.0.0.1 render1=10.0.1.2 render2=10.0.2.2 --rate 6mbit --for 20s

Run with a broker that knows all agents on the way.
"""

import argparse

import sluice
from sluice import together as t


def visualization(broker, desk, renderers, rate, span):
    """A licence at one of the renderers, and the way from there to the desk: these go together."""
    places = [
        [t.Hosts(address, desk, forward=rate), t.Amount("%s/licence/renderer" % agent, count=1)] for agent, address in renderers
    ]
    return broker.together(
        [t.Part("renderer", *places)],
        strategy=[t.Retry(1, pause=0.2), t.Another(), t.Smaller(0.5), t.Later("10min")],
        duration=span,
        name="visualization",
        told=lambda news: print("%s: %s" % (news.news, news.text), flush=True),
    )


if __name__ == "__main__":
    said = argparse.ArgumentParser(description="A renderer and the network from it to a desk, as one reservation.")
    said.add_argument("desk", help="the desk's address")
    said.add_argument("renderer", nargs="+", help="AGENT=ADDRESS, the best first")
    said.add_argument("--rate", default="6mbit", help="the rate from the renderer to the desk (default: 6mbit)")
    said.add_argument("--for", dest="span", default="20s", help="for how long (default: 20s)")
    said.add_argument("--broker", help="a Unix socket, or https://HOST:PORT (default: this machine's)")
    said = said.parse_args()
    renderers = [one.split("=", 1) for one in said.renderer]
    made = visualization(sluice.Broker(said.broker), said.desk, renderers, said.rate, said.span)
    print("rendering at %s with %.3f Mbit/s" % (made.chosen["renderer"], made.reservation.forward / 1e6))
    # Until the time is over, or nothing is left to repair it with. What happens is printed by ``told``.
    for _ in made.watch():
        pass
