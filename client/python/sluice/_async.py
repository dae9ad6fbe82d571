"""A broker with ``await``; ``_sync.py``, where calls wait, is generated from this file by client/python/generate.py."""

from __future__ import annotations

import secrets
import time
from typing import Any, AsyncIterator, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _documents as d
from ._co_async import AsyncCoReservation, together
from ._errors import Malformed
from ._plan import News, Part, Step
from ._requests import change, flow, limited, wish
from ._streams import AsyncStream
from ._units import Duration, Rate, When, instant
from ._units import rate as bits
from ._wire import MAX_ANSWER, Head, Lines, Place, Turns, answer, chunk, fields, is_standby, of_state, request, target

#: States in which a reservation is no more.
OVER = ("ended", "cancelled", "expired")
#: An event stream says something every 15 s; three of them missing is a connection that is gone.
SILENCE = 45.0


class AsyncReservation(d.State):
    """A reservation as it was when the broker last spoke of it, and the calls that change it."""

    def __init__(self, broker: "AsyncBroker", doc: Mapping[str, Any]) -> None:
        self._broker = broker
        self.take(doc)

    def __repr__(self) -> str:
        return "<AsyncReservation %s %s>" % (self.id, self.state)

    def is_over(self) -> bool:
        """True if it has ended, was cancelled, or its hold expired."""
        return self.state in OVER

    async def _call(self, method: str, tail: str = "", body: Optional[Mapping[str, Any]] = None) -> "AsyncReservation":
        self.take(await self._broker.call(method, "/v1/reservations/%s%s" % (self.id, tail), body))
        return self

    async def refresh(self) -> "AsyncReservation":
        """Asks the broker for its present state."""
        return await self._call("GET")

    async def bind(
        self, from_port: Optional[int] = None, to_port: Optional[int] = None, *, protocol: Union[int, str, None] = None
    ) -> "AsyncReservation":
        """Binds a path between two hosts to packets; a port or protocol that is left out may be anything."""
        return await self._call("POST", "/bind", {"flow": flow(from_port, to_port, protocol)})

    async def bind_part(self, part: int, binding: Optional[Mapping[str, Any]]) -> "AsyncReservation":
        """Binds one part to packets, a process or a control group: ``{"pid": 42}``, ``{"flow": {...}}``; None: to nothing."""
        return await self._call("POST", "/bind", {"part": part, "binding": None if binding is None else dict(binding)})

    async def modify(
        self,
        *,
        forward: Optional[Rate] = None,
        reverse: Optional[Rate] = None,
        amounts: Optional[Sequence[Mapping[str, Any]]] = None,
        start: Optional[When] = None,
        end: Optional[When] = None,
        duration: Optional[Duration] = None,
        label: Optional[str] = None,
    ) -> "AsyncReservation":
        """Changes it; if the change does not fit, the reservation stays and NoRoom is raised. A duration counts from now."""
        return await self._call("PATCH", "", change(forward, reverse, amounts, start, end, duration, label))

    async def commit(self) -> "AsyncReservation":
        """Books what is held."""
        return await self._call("POST", "/commit")

    async def cancel(self) -> "AsyncReservation":
        """Gives it back."""
        return await self._call("DELETE")

    async def history(self) -> List[d.Event]:
        """Its events, oldest first."""
        doc = await self._broker.call("GET", "/v1/reservations/%s/history" % self.id)
        return [d.Event.read("%s:%d" % (one["agent"], one["seq"]), one["event"], one) for one in doc["events"]]

    async def events(self, after: Optional[str] = None) -> AsyncIterator[d.Event]:
        """Its state (``state``) and its events as they happen, until it is over."""
        lines, said = Lines(after), None
        async for event in self._broker._events(lines, self.id):
            if event.event != "begins":
                yield event
            # From here on nothing is missed; and what is over has ended at every agent.
            if event.event == "begins" or event.event in OVER:
                state = (await self.refresh()).state
                if state != said:
                    said = state
                    yield of_state(lines.last or "", self.id, state)
                if state in OVER:
                    return

    async def __aenter__(self) -> "AsyncReservation":
        return self

    async def __aexit__(self, *_: object) -> None:
        if (await self.refresh()).state in ("held", "preparing", "committing", "booked", "active", "suspended", "broken"):
            await self.cancel()


class AsyncBroker:
    """A broker whose calls are awaited.

    ``AsyncBroker()`` is this machine's own, ``AsyncBroker("https://host:8443", ca=..., certificate=..., key=...)`` another.
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

    async def _open(self, seconds: float, method: str, path: str, head: Mapping[str, str], text: Optional[bytes] = None) -> AsyncStream:
        asked = request(self._turns.place, method, path, head, text)
        stream = await AsyncStream.open(self._turns.place, seconds)
        try:
            await stream.write(asked)
        except BaseException:
            stream.close()
            raise
        return stream

    async def call(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None, key: Optional[str] = None) -> Any:
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
                said, reply = await self._exchange(seconds, method, path, head, text)
                if not (patient and is_standby(said.status, reply)):
                    return answer(said.status, reply)
            except (OSError, EOFError) as error:
                if not (patient and (again or isinstance(error, ConnectionRefusedError))):
                    raise place.away(error) from error
            await AsyncStream.pause(self._turns.pass_on())

    async def _exchange(
        self, seconds: float, method: str, path: str, head: Mapping[str, str], text: Optional[bytes]
    ) -> Tuple[Head, bytes]:
        stream = await self._open(seconds, method, path, head, text)
        try:
            said = await _head(stream)
            return said, await _whole(stream, said)
        finally:
            stream.close()

    async def resources(self, start: Optional[When] = None, end: Optional[When] = None) -> List[d.Resource]:
        """The resources of all agents; with a window also the free amounts in it, step by step."""
        query = {"from": instant(start) if start else None, "to": instant(end) if end else None}
        return [d.Resource.read(row) for row in (await self.call("GET", target("/v1/resources", query)))["resources"]]

    async def enquire(
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
        return d.Enquiry.read(await self.call("POST", "/v1/enquiries", doc))

    async def reserve(
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
    ) -> AsyncReservation:
        """Reserves between two hosts, or single resources (``parts=[{"resource": "cpu", "cores": 0.5}]``), or both: all or nothing.

        More: ``earliest=True``, ``volume=BYTES, deadline=WHEN``, ``windows=[(start, end), ...]``, ``forward_at_least=RATE``,
        ``background=True``, ``hold=SECONDS``, ``label=TEXT``. ``key`` is an idempotency key. It needs a duration or an end;
        ``duration="forever"`` has no end.
        """
        until, span = limited(end, duration, more)
        doc = wish(a, b, forward=forward, reverse=reverse, parts=parts, start=start, end=until, duration_=span, **more)
        return AsyncReservation(self, await self.call("POST", "/v1/reservations", doc, key))

    async def together(
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
    ) -> AsyncCoReservation:
        """Reserves all parts as one, all or none, and asks in other ways where one is refused: see ``sluice.together``.

        ``strategy`` is for parts that have none of their own. At most ``attempts`` requests are refused, and ``patience`` is the
        time for all of them; both count anew for each repair. ``name`` is the label: what a program of the same name has made is
        taken over, also one that was killed in the middle, and one lives at a time. ``told`` is called with all that is done.
        """
        return await together(self, parts, strategy, (start, end, duration), name, (attempts, patience), told)

    async def reservation(self, ident: str) -> AsyncReservation:
        """The reservation of that name."""
        return AsyncReservation(self, await self.call("GET", "/v1/reservations/%s" % ident))

    async def reservations(
        self, *, label: Optional[str] = None, owner: Optional[str] = None, state: Optional[str] = None
    ) -> List[AsyncReservation]:
        """The reservations that are not over, or are in the named states (separated by commas)."""
        asked: Dict[str, Any] = {"label": label, "owner": owner, "state": state}
        rows: List[AsyncReservation] = []
        while True:
            doc = await self.call("GET", target("/v1/reservations", asked))
            rows.extend(AsyncReservation(self, one) for one in doc["reservations"])
            if doc.get("next") in (None, asked.get("after")):
                return rows
            asked["after"] = doc["next"]

    async def paths(self, a: str, b: str) -> d.Paths:
        """The interfaces by which the packets between two hosts leave."""
        return d.Paths.read(await self.call("GET", target("/v1/paths", {"from": a, "to": b})))

    async def topology(
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
        return d.Topology.read(await self.call("GET", target("/v1/topology", query)))

    async def events(self, after: Optional[str] = None, reservation: Optional[str] = None) -> AsyncIterator[d.Event]:
        """The events as they happen, without end; a broken connection is taken up where it broke off."""
        async for event in self._events(Lines(after), reservation):
            if event.event != "begins":
                yield event

    async def _events(self, lines: Lines, reservation: Optional[str]) -> AsyncIterator[d.Event]:
        while True:
            try:
                async for event in self._stream(lines, reservation):
                    yield event
            except (OSError, EOFError):
                pass
            if self._turns.several:
                await AsyncStream.pause(0.2 + self._turns.pass_on())
            else:
                await AsyncStream.pause(1)

    async def _stream(self, lines: Lines, reservation: Optional[str]) -> AsyncIterator[d.Event]:
        head = {"Accept": "text/event-stream"}
        if lines.last:
            head["Last-Event-ID"] = lines.last
        stream = await self._open(SILENCE, "GET", target("/v1/events", {"reservation": reservation}), head)
        try:
            said = await _head(stream)
            if said.status != 200:
                reply = await _whole(stream, said)
                if not (self._turns.several and is_standby(said.status, reply)):
                    answer(said.status, reply)
                return
            rest = b""
            async for piece in _pieces(stream, said):
                *whole, rest = (rest + piece).split(b"\n")
                if len(rest) > MAX_ANSWER:
                    raise Malformed(0, "nonsense", "the broker sent an event that is too large")
                for line in whole:
                    for event in lines.take(line.decode().rstrip("\r")):
                        yield event
                stream.within(SILENCE)
        finally:
            stream.close()

    async def webhook(self, url: str, *, reservation: Optional[str] = None, secret: Optional[str] = None) -> d.Webhook:
        """Adds a webhook: events go to a target, signed and in order."""
        doc = {name: value for name, value in (("url", url), ("reservation", reservation), ("secret", secret)) if value is not None}
        return d.Webhook.read(await self.call("POST", "/v1/webhooks", doc))

    async def webhooks(self) -> List[d.Webhook]:
        """The caller's webhooks."""
        return [d.Webhook.read(one) for one in (await self.call("GET", "/v1/webhooks"))["webhooks"]]

    async def remove_webhook(self, ident: str) -> None:
        """Delivers no more."""
        await self.call("DELETE", "/v1/webhooks/%s" % ident)


async def _head(stream: AsyncStream) -> Head:
    """The head of an answer."""
    head = Head()
    while not head.take(await stream.readline()):
        pass
    return head


async def _whole(stream: AsyncStream, head: Head) -> bytes:
    """The body of an answer."""
    body = bytearray()
    async for piece in _pieces(stream, head):
        body += piece
        if len(body) > MAX_ANSWER:
            raise Malformed(0, "nonsense", "the broker's answer is too large")
    return bytes(body)


async def _pieces(stream: AsyncStream, head: Head) -> AsyncIterator[bytes]:
    """The pieces of a body, as they come."""
    if head.chunked:
        while True:
            size = chunk(await stream.readline())
            if size == 0:
                return
            yield await stream.readexactly(size)
            await stream.readexactly(2)
    elif head.length is not None:
        if head.length > MAX_ANSWER:
            raise Malformed(0, "nonsense", "the broker's answer is too large")
        yield await stream.readexactly(head.length)
    else:
        while True:
            piece = await stream.read()
            if not piece:
                return
            yield piece
