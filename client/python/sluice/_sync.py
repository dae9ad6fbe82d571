"""A broker, call by call.

Generated from _async.py by client/python/generate.py: change that file, not this one.
"""

from __future__ import annotations

import secrets
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _documents as d
from ._co_sync import CoReservation, together
from ._errors import Malformed
from ._plan import News, Part, Step
from ._requests import change, flow, limited, wish
from ._streams import Stream
from ._units import Duration, Rate, When, instant
from ._units import rate as bits
from ._wire import MAX_ANSWER, Head, Lines, Place, Turns, answer, chunk, fields, is_standby, of_state, request, target

#: States in which a reservation is no more.
OVER = ("ended", "cancelled", "expired")
#: An event stream says something every 15 s; three of them missing is a connection that is gone.
SILENCE = 45.0


class Reservation(d.State):
    """A reservation as it was when the broker last spoke of it, and the calls that change it."""

    def __init__(self, broker: "Broker", doc: Mapping[str, Any]) -> None:
        self._broker = broker
        self.take(doc)

    def __repr__(self) -> str:
        return "<Reservation %s %s>" % (self.id, self.state)

    def is_over(self) -> bool:
        """True if it has ended, was cancelled, or its hold expired."""
        return self.state in OVER

    def _call(self, method: str, tail: str = "", body: Optional[Mapping[str, Any]] = None) -> "Reservation":
        self.take(self._broker.call(method, "/v1/reservations/%s%s" % (self.id, tail), body))
        return self

    def refresh(self) -> "Reservation":
        """Asks the broker for its present state."""
        return self._call("GET")

    def bind(
        self, from_port: Optional[int] = None, to_port: Optional[int] = None, *, protocol: Union[int, str, None] = None
    ) -> "Reservation":
        """Binds a path between two hosts to packets; a port or protocol that is left out may be anything."""
        return self._call("POST", "/bind", {"flow": flow(from_port, to_port, protocol)})

    def bind_part(self, part: int, binding: Optional[Mapping[str, Any]]) -> "Reservation":
        """Binds one part to packets, a process or a control group: ``{"pid": 42}``, ``{"flow": {...}}``; None: to nothing."""
        return self._call("POST", "/bind", {"part": part, "binding": None if binding is None else dict(binding)})

    def modify(
        self,
        *,
        forward: Optional[Rate] = None,
        reverse: Optional[Rate] = None,
        amounts: Optional[Sequence[Mapping[str, Any]]] = None,
        start: Optional[When] = None,
        end: Optional[When] = None,
        duration: Optional[Duration] = None,
        label: Optional[str] = None,
    ) -> "Reservation":
        """Changes it; if the change does not fit, the reservation stays and NoRoom is raised. A duration counts from now."""
        return self._call("PATCH", "", change(forward, reverse, amounts, start, end, duration, label))

    def commit(self) -> "Reservation":
        """Books what is held."""
        return self._call("POST", "/commit")

    def cancel(self) -> "Reservation":
        """Gives it back."""
        return self._call("DELETE")

    def history(self) -> List[d.Event]:
        """Its events, oldest first."""
        doc = self._broker.call("GET", "/v1/reservations/%s/history" % self.id)
        return [d.Event.read("%s:%d" % (one["agent"], one["seq"]), one["event"], one) for one in doc["events"]]

    def events(self, after: Optional[str] = None) -> Iterator[d.Event]:
        """Its state (``state``) and its events as they happen, until it is over."""
        lines, said = Lines(after), None
        for event in self._broker._events(lines, self.id):
            if event.event != "begins":
                yield event
            # From here on nothing is missed; and what is over has ended at every agent.
            if event.event == "begins" or event.event in OVER:
                state = self.refresh().state
                if state != said:
                    said = state
                    yield of_state(lines.last or "", self.id, state)
                if state in OVER:
                    return

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, *_: object) -> None:
        if self.refresh().state in ("held", "preparing", "committing", "booked", "active", "suspended", "broken"):
            self.cancel()


class Broker:
    """A broker.

    ``Broker()`` is this machine's own, ``Broker("https://host:8443", ca=..., certificate=..., key=...)`` another.
    ``timeout`` is for a whole call, from connecting to the last byte, in seconds. Of several brokers of which one leads
    (``"https://a:8443,https://b:8443"``) the next is asked where one is away or a standby.
    """

    def __init__(
        self,
        where: Optional[str] = None,
        *,
        ca: Optional[str] = None,
        certificate: Optional[str] = None,
        key: Optional[str] = None,
        token: Optional[str] = None,
        timeout: float = 30.0,
    ) -> None:
        self._turns = Turns(Place.all(where, ca, certificate, key, token))
        self._timeout = timeout

    def _open(self, seconds: float, method: str, path: str, head: Mapping[str, str], text: Optional[bytes] = None) -> Stream:
        asked = request(self._turns.place, method, path, head, text)
        stream = Stream.open(self._turns.place, seconds)
        try:
            stream.write(asked)
        except BaseException:
            stream.close()
            raise
        return stream

    def call(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None, key: Optional[str] = None) -> Any:
        """Makes any request of docs/openapi.json and returns the answer's document."""
        if key is None and self._turns.several and (method, path) == ("POST", "/v1/reservations"):
            # Only with a key may the next broker be asked for what this one may have done.
            key = secrets.token_hex(16)
        head, text = fields(body, key)
        again = bool(key) or method not in ("POST", "PATCH") or path == "/v1/enquiries"
        until = time.monotonic() + self._timeout
        while True:
            place, patient = self._turns.place, self._turns.several and time.monotonic() < until
            try:
                # One that is stopped takes connections and says nothing: what can be asked again is, before the time is over.
                seconds = self._timeout / 4 if patient and again else self._timeout
                said, reply = self._exchange(seconds, method, path, head, text)
                if not (patient and is_standby(said.status, reply)):
                    return answer(said.status, reply)
            except (OSError, EOFError) as error:
                if not (patient and (again or isinstance(error, ConnectionRefusedError))):
                    raise place.away(error) from error
            Stream.pause(self._turns.pass_on())

    def _exchange(
        self, seconds: float, method: str, path: str, head: Mapping[str, str], text: Optional[bytes]
    ) -> Tuple[Head, bytes]:
        stream = self._open(seconds, method, path, head, text)
        try:
            said = _head(stream)
            return said, _whole(stream, said)
        finally:
            stream.close()

    def resources(self, start: Optional[When] = None, end: Optional[When] = None) -> List[d.Resource]:
        """The resources of all agents; with a window also the free amounts in it, step by step."""
        query = {"from": instant(start) if start else None, "to": instant(end) if end else None}
        return [d.Resource.read(row) for row in self.call("GET", target("/v1/resources", query))["resources"]]

    def enquire(
        self,
        a: Optional[str] = None,
        b: Optional[str] = None,
        *,
        forward: Optional[Rate] = None,
        reverse: Optional[Rate] = None,
        parts: Optional[Sequence[Mapping[str, Any]]] = None,
        start: Optional[When] = None,
        end: Optional[When] = None,
        duration: Optional[Duration] = None,
        **more: Any,
    ) -> d.Enquiry:
        """Asks for the amounts that would be granted between two hosts, or of single resources; without a rate: for the most."""
        doc = wish(a, b, forward=forward, reverse=reverse, parts=parts, start=start, end=end, duration_=duration, **more)
        return d.Enquiry.read(self.call("POST", "/v1/enquiries", doc))

    def reserve(
        self,
        a: Optional[str] = None,
        b: Optional[str] = None,
        *,
        forward: Optional[Rate] = None,
        reverse: Optional[Rate] = None,
        parts: Optional[Sequence[Mapping[str, Any]]] = None,
        start: Optional[When] = None,
        end: Optional[When] = None,
        duration: Optional[Duration] = None,
        key: Optional[str] = None,
        **more: Any,
    ) -> Reservation:
        """Reserves between two hosts, or single resources (``parts=[{"resource": "cpu", "cores": 0.5}]``), or both: all or nothing.

        More: ``earliest=True``, ``volume=BYTES, deadline=WHEN``, ``windows=[(start, end), ...]``, ``forward_at_least=RATE``,
        ``background=True``, ``hold=SECONDS``, ``label=TEXT``. ``key`` is an idempotency key. It needs a duration or an end;
        ``duration="forever"`` has no end.
        """
        until, span = limited(end, duration, more)
        doc = wish(a, b, forward=forward, reverse=reverse, parts=parts, start=start, end=until, duration_=span, **more)
        return Reservation(self, self.call("POST", "/v1/reservations", doc, key))

    def together(
        self,
        parts: Sequence[Part],
        *,
        strategy: Sequence[Step] = (),
        start: Optional[When] = None,
        end: Optional[When] = None,
        duration: Optional[Duration] = None,
        name: str = "",
        attempts: int = 20,
        patience: Duration = 60.0,
        told: Optional[Callable[[News], object]] = None,
    ) -> CoReservation:
        """Reserves all parts as one, all or none, and asks in other ways where one is refused: see ``sluice.together``.

        ``strategy`` is for parts that have none of their own. At most ``attempts`` requests are refused, and ``patience`` is the
        time for all of them; both count anew for each repair. ``name`` is the label: what a program of the same name has made is
        taken over, also one that was killed in the middle, and one lives at a time. ``told`` is called with all that is done.
        """
        return together(self, parts, strategy, (start, end, duration), name, (attempts, patience), told)

    def reservation(self, ident: str) -> Reservation:
        """The reservation of that name."""
        return Reservation(self, self.call("GET", "/v1/reservations/%s" % ident))

    def reservations(
        self, *, label: Optional[str] = None, owner: Optional[str] = None, state: Optional[str] = None
    ) -> List[Reservation]:
        """The reservations that are not over, or are in the named states (separated by commas)."""
        asked: Dict[str, Any] = {"label": label, "owner": owner, "state": state}
        rows: List[Reservation] = []
        while True:
            doc = self.call("GET", target("/v1/reservations", asked))
            rows.extend(Reservation(self, one) for one in doc["reservations"])
            if doc.get("next") in (None, asked.get("after")):
                return rows
            asked["after"] = doc["next"]

    def paths(self, a: str, b: str) -> d.Paths:
        """The interfaces by which the packets between two hosts leave."""
        return d.Paths.read(self.call("GET", target("/v1/paths", {"from": a, "to": b})))

    def topology(
        self,
        a: Optional[str] = None,
        b: Optional[str] = None,
        *,
        rate: Optional[Rate] = None,
        start: Optional[When] = None,
        end: Optional[When] = None,
    ) -> d.Topology:
        """The domains that the broker knows; with two hosts, the paths over them with so much free, the cheapest first."""
        query = {
            "from": a,
            "to": b,
            "rate": None if rate is None else str(bits(rate)),
            "start": None if start is None else instant(start),
            "end": None if end is None else instant(end),
        }
        return d.Topology.read(self.call("GET", target("/v1/topology", query)))

    def events(self, after: Optional[str] = None, reservation: Optional[str] = None) -> Iterator[d.Event]:
        """The events as they happen, without end; a broken connection is taken up where it broke off."""
        for event in self._events(Lines(after), reservation):
            if event.event != "begins":
                yield event

    def _events(self, lines: Lines, reservation: Optional[str]) -> Iterator[d.Event]:
        while True:
            try:
                for event in self._stream(lines, reservation):
                    yield event
            except (OSError, EOFError):
                pass
            if self._turns.several:
                Stream.pause(0.2 + self._turns.pass_on())
            else:
                Stream.pause(1)

    def _stream(self, lines: Lines, reservation: Optional[str]) -> Iterator[d.Event]:
        head = {"Accept": "text/event-stream"}
        if lines.last:
            head["Last-Event-ID"] = lines.last
        stream = self._open(SILENCE, "GET", target("/v1/events", {"reservation": reservation}), head)
        try:
            said = _head(stream)
            if said.status != 200:
                reply = _whole(stream, said)
                if not (self._turns.several and is_standby(said.status, reply)):
                    answer(said.status, reply)
                return
            rest = b""
            for piece in _pieces(stream, said):
                *whole, rest = (rest + piece).split(b"\n")
                if len(rest) > MAX_ANSWER:
                    raise Malformed(0, "nonsense", "the broker sent an event that is too large")
                for line in whole:
                    for event in lines.take(line.decode().rstrip("\r")):
                        yield event
                stream.within(SILENCE)
        finally:
            stream.close()

    def webhook(self, url: str, *, reservation: Optional[str] = None, secret: Optional[str] = None) -> d.Webhook:
        """Adds a webhook: events go to a target, signed and in order."""
        doc = {name: value for name, value in (("url", url), ("reservation", reservation), ("secret", secret)) if value is not None}
        return d.Webhook.read(self.call("POST", "/v1/webhooks", doc))

    def webhooks(self) -> List[d.Webhook]:
        """The caller's webhooks."""
        return [d.Webhook.read(one) for one in self.call("GET", "/v1/webhooks")["webhooks"]]

    def remove_webhook(self, ident: str) -> None:
        """Delivers no more."""
        self.call("DELETE", "/v1/webhooks/%s" % ident)


def _head(stream: Stream) -> Head:
    """The head of an answer."""
    head = Head()
    while not head.take(stream.readline()):
        pass
    return head


def _whole(stream: Stream, head: Head) -> bytes:
    """The body of an answer."""
    body = bytearray()
    for piece in _pieces(stream, head):
        body += piece
        if len(body) > MAX_ANSWER:
            raise Malformed(0, "nonsense", "the broker's answer is too large")
    return bytes(body)


def _pieces(stream: Stream, head: Head) -> Iterator[bytes]:
    """The pieces of a body, as they come."""
    if head.chunked:
        while True:
            size = chunk(stream.readline())
            if size == 0:
                return
            yield stream.readexactly(size)
            stream.readexactly(2)
    elif head.length is not None:
        if head.length > MAX_ANSWER:
            raise Malformed(0, "nonsense", "the broker's answer is too large")
        yield stream.readexactly(head.length)
    else:
        while True:
            piece = stream.read()
            if not piece:
                return
            yield piece
