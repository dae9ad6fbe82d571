"""Boomerang: one message goes to the far end and back, and every aware node on its way reserves.

    import sluice

    with sluice.boomerang.reserve("10.0.2.2", src_port=4000, dst_port=5004, forward="4mbit") as session:
        ...                                    # given back at the end, or when the program ends

It is asked of this machine's own agent over its local socket; neither a broker nor anything at the far end is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._agent import Agent
from ._errors import NoRoom, Unavailable
from ._units import Rate, protocol as _protocol, rate as _rate

__all__ = ["Session", "reserve"]

Rates = Tuple[Rate, Rate]


@dataclass(frozen=True)
class News:
    """What happened to a session: ``reserved``, ``refused``, ``silent``, ``hop_mismatch``, ``no_route`` or ``released``."""

    news: str
    said: Mapping[str, Any]


class Session:
    """A session that the agent keeps up until it is released, or this program ends."""

    def __init__(self, agent: Agent, ask: Dict[str, Any], number: int) -> None:
        self._agent, self._ask = agent, ask
        #: Its number at the agent.
        self.number = number
        #: What every aware node has reserved, bit/s.
        self.forward = 0
        self.reverse = 0
        #: Aware nodes on the way out and back, where they were counted.
        self.hops: Tuple[Optional[int], Optional[int]] = (None, None)

    def _settle(self, patience: float) -> "Session":
        while True:
            news = self.news(patience)
            if news is None or news.news in ("silent", "no_route"):
                raise Unavailable(0, "no_answer", "the far end %s does not answer" % self._ask["far_end"])
            if news.news == "refused":
                free = news.said["available"]
                words = "a node on the way refused: %d bit/s forward and %d reverse are free" % (free["forward_bps"], free["reverse_bps"])
                raise NoRoom(0, "no_room", words)
            if news.news == "reserved":
                return self

    def news(self, patience: float) -> Optional[News]:
        """The next thing that happens to it; None: nothing in time (seconds)."""
        while True:
            event = self._agent.event(patience)
            if event is None:
                return None
            if event.get("number") != self.number or "news" not in event:
                continue
            if event["news"] == "reserved":
                self.forward, self.reverse = event["rates"]["forward_bps"], event["rates"]["reverse_bps"]
                self.hops = (event.get("hops_forward"), event.get("hops_reverse"))
            return News(event["news"], event)

    def modify(self, forward: Rate = 0, reverse: Rate = 0, *, patience: float = 10.0) -> "Session":
        """Asks for other rates; if a node refuses, NoRoom is raised and what there was stays."""
        self._ask["rates"] = _rates([(forward, reverse)])
        self._agent.call("boomerang_reserve", ask=self._ask, number=self.number)
        return self._settle(patience)

    def release(self) -> None:
        """Gives it back."""
        try:
            self._agent.call("boomerang_release", number=self.number)
        finally:
            self._agent.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _rates(all_: Sequence[Rates]) -> List[Dict[str, int]]:
    return [{"forward_bps": _rate(forward), "reverse_bps": _rate(reverse)} for forward, reverse in all_]


def _whose(
    far_end: str,
    src: Optional[str],
    dst: Optional[str],
    protocol: Union[int, str, None],
    src_port: Optional[int],
    dst_port: Optional[int],
) -> Tuple[Dict[str, Any], Optional[Dict[str, Any]]]:
    """Whose packets, and which bits of that count; None: all."""
    flow: Dict[str, Any] = {"src": src, "dst": dst, "src_port": src_port or 0, "dst_port": dst_port or 0}
    if not any(end and "/" in end for end in (src, dst)):
        if src_port is None or dst_port is None:
            raise ValueError("src_port and dst_port are needed unless src or dst is a prefix")
        return {**flow, "protocol": _protocol("udp" if protocol is None else protocol)}, None
    to = ip_network(dst or far_end)
    whole = ip_network(far_end).netmask
    mask = {
        "src": str(ip_network(src).netmask if src else whole),
        "dst": str(to.netmask),
        "protocol": 0 if protocol is None else 255,
        "src_port": 65535 if src_port else 0,
        "dst_port": 65535 if dst_port else 0,
    }
    flow["src"] = str(ip_network(src).network_address) if src else None
    flow["dst"] = str(to.network_address)
    return {**flow, "protocol": 0 if protocol is None else _protocol(protocol)}, mask


def reserve(
    far_end: str,
    *,
    src_port: Optional[int] = None,
    dst_port: Optional[int] = None,
    protocol: Union[int, str, None] = None,
    src: Optional[str] = None,
    dst: Optional[str] = None,
    forward: Rate = 0,
    reverse: Rate = 0,
    or_else: Sequence[Rates] = (),
    at_least: Rates = (0, 0),
    refresh: int = 3,
    socket: Optional[str] = None,
    patience: float = 10.0,
) -> Session:
    """Reserves for the packets from our ``src_port`` to ``dst_port`` of the far end, and back.

    ``src`` and ``dst`` may be prefixes, ``"10.1.0.0/16"``: all packets between the two sites are one session then, of any port
    and protocol that is not said, and ``far_end`` is the host there that answers.

    ``or_else`` are rates (forward, reverse) that would do instead, best first; ``at_least`` is what is taken when a node has less.

    Raises NoRoom where a node refuses, Unavailable where nobody answers.
    """
    flow, mask = _whose(far_end, src, dst, protocol, src_port, dst_port)
    agent = Agent(socket)
    ask: Dict[str, Any] = {
        "far_end": far_end,
        "flow": flow,
        "mask": mask,
        "rates": _rates([(forward, reverse), *or_else]),
        "at_least": _rates([at_least])[0],
        "refresh_s": refresh,
        "bound": True,
    }
    try:
        doc = agent.call("boomerang_reserve", ask=ask)["boomerang"]
        return Session(agent, ask, doc["sessions"][0]["number"])._settle(patience)
    except BaseException:
        agent.close()
        raise
