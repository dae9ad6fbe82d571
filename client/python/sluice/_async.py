"""The same broker with ``await``, on asyncio's own streams."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _documents as d
from ._errors import Malformed
from ._wire import MAX_ANSWER, Lines, Place, answer, fields, target


class AsyncReservation(d.State):
    """A reservation: a handle with what it was when it was last heard of."""

    def __init__(self, broker: "AsyncBroker", doc: Mapping[str, Any]) -> None:
        super().__init__()
        self._broker = broker
        self.take(doc)

    def __repr__(self) -> str:
        return "<AsyncReservation %s %s>" % (self.id, self.state)

    async def _call(self, method: str, tail: str = "", body: Optional[Mapping[str, Any]] = None) -> "AsyncReservation":
        self.take(await self._broker.call(method, "/v1/reservations/%s%s" % (self.id, tail), body))
        return self

    async def refresh(self) -> "AsyncReservation":
        """Asks how it is now."""
        return await self._call("GET")

    async def bind(
        self, from_port: Optional[int] = None, to_port: Optional[int] = None, *, protocol: Union[int, str, None] = None
    ) -> "AsyncReservation":
        """Says whose packets it is for, where it is between two hosts; what is left out may be anything."""
        return await self._call("POST", "/bind", {"flow": d.flow(from_port, to_port, protocol)})

    async def bind_part(self, part: int, binding: Optional[Mapping[str, Any]]) -> "AsyncReservation":
        """Says whose packets or processes a part is for; None: nobody's."""
        return await self._call("POST", "/bind", {"part": part, "binding": None if binding is None else dict(binding)})

    async def modify(
        self,
        *,
        forward: Optional[d.Rate] = None,
        reverse: Optional[d.Rate] = None,
        amounts: Optional[Sequence[Mapping[str, Any]]] = None,
        start: Optional[d.When] = None,
        end: Optional[d.When] = None,
        duration: Optional[d.Duration] = None,
        label: Optional[str] = None,
    ) -> "AsyncReservation":
        """Changes it; if the new does not fit, the old stays and NoRoom is raised. A duration counts from now."""
        return await self._call("PATCH", "", d.change(forward, reverse, amounts, start, end, duration, label))

    async def commit(self) -> "AsyncReservation":
        """Books what is held."""
        return await self._call("POST", "/commit")

    async def cancel(self) -> "AsyncReservation":
        """Gives it back."""
        return await self._call("DELETE")

    async def history(self) -> List[d.Event]:
        """What happened to it."""
        doc = await self._broker.call("GET", "/v1/reservations/%s/history" % self.id)
        return [d.Event.read("%s:%d" % (one["agent"], one["seq"]), one["event"], one) for one in doc["events"]]

    async def events(self, after: Optional[str] = None) -> AsyncIterator[d.Event]:
        """How it is (``state``), and what happens to it, as it happens, until it is over."""
        lines, said = Lines(after), None
        async for event in self._broker._events(lines, self.id):
            if event.event != "begins":
                yield event
            # From here on nothing is missed; and what is over has ended at every agent.
            if event.event == "begins" or event.event in d.OVER:
                state = (await self.refresh()).state
                if state != said:
                    said = state
                    yield d.Event.of_state(lines.last or "", self.id, state)
                if state in d.OVER:
                    return

    async def __aenter__(self) -> "AsyncReservation":
        return self

    async def __aexit__(self, *_: object) -> None:
        if (await self.refresh()).state in ("held", "booked", "active", "suspended", "broken"):
            await self.cancel()


class AsyncBroker:
    """A broker, as :class:`sluice.Broker`, whose calls are awaited."""

    def __init__(
        self,
        where: Optional[str] = None,
        *,
        ca: Optional[str] = None,
        certificate: Optional[str] = None,
        key: Optional[str] = None,
        timeout: float = 30.0,
    ) -> None:
        self._place = Place.of(where, ca, certificate, key)
        self._timeout = timeout

    async def _open(self, method: str, path: str, head: Dict[str, str], text: Optional[bytes]) -> Tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        place = self._place
        if place.socket is not None:
            reader, writer = await asyncio.open_unix_connection(place.socket)
        else:
            name = place.host if place.tls else None
            reader, writer = await asyncio.open_connection(place.host, place.port, ssl=place.tls, server_hostname=name)
        lines = ["%s %s HTTP/1.1" % (method, path), "Host: %s" % place.host, "Connection: close"]
        lines += ["%s: %s" % one for one in head.items()]
        if text is not None or method in ("POST", "PATCH"):
            lines.append("Content-Length: %d" % len(text or b""))
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + (text or b""))
        await writer.drain()
        return reader, writer

    async def call(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None, key: Optional[str] = None) -> Any:
        """Any request of docs/openapi.json; the answer's document."""
        head, text = fields(body, key)
        try:
            status, reply = await asyncio.wait_for(self._exchange(method, path, head, text), self._timeout)
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            raise self._place.away(error) from error
        return answer(status, reply)

    async def _exchange(self, method: str, path: str, head: Dict[str, str], text: Optional[bytes]) -> Tuple[int, bytes]:
        reader, writer = await self._open(method, path, head, text)
        try:
            status, chunked = await _head(reader)
            if chunked:
                pieces = [piece async for piece in _chunks(reader)]
                return status, b"".join(pieces)
            return status, await reader.read(-1) if status != 204 else b""
        finally:
            writer.close()

    async def resources(self, start: Optional[d.When] = None, end: Optional[d.When] = None) -> List[d.Resource]:
        """What there is; with a window also what is free in it, step by step."""
        query = {"from": start and d.instant(start), "to": end and d.instant(end)}
        return d.resources(await self.call("GET", target("/v1/resources", query)))

    async def enquire(
        self,
        a: Optional[str] = None,
        b: Optional[str] = None,
        *,
        forward: Optional[d.Rate] = None,
        reverse: Optional[d.Rate] = None,
        parts: Optional[Sequence[Mapping[str, Any]]] = None,
        start: Optional[d.When] = None,
        end: Optional[d.When] = None,
        duration: Optional[d.Duration] = None,
        **more: Any,
    ) -> d.Enquiry:
        """What would be granted between two hosts, or of single resources; without a rate: how much could be had."""
        doc = d.wish(a, b, forward=forward, reverse=reverse, parts=parts, start=start, end=end, duration_=duration, **more)
        return d.Enquiry.read(await self.call("POST", "/v1/enquiries", doc))

    async def reserve(
        self,
        a: Optional[str] = None,
        b: Optional[str] = None,
        *,
        forward: Optional[d.Rate] = None,
        reverse: Optional[d.Rate] = None,
        parts: Optional[Sequence[Mapping[str, Any]]] = None,
        start: Optional[d.When] = None,
        end: Optional[d.When] = None,
        duration: Optional[d.Duration] = None,
        key: Optional[str] = None,
        **more: Any,
    ) -> AsyncReservation:
        """Reserves, all or nothing: see :meth:`sluice.Broker.reserve`."""
        until, span = d.limited(end, duration, more)
        doc = d.wish(a, b, forward=forward, reverse=reverse, parts=parts, start=start, end=until, duration_=span, **more)
        return AsyncReservation(self, await self.call("POST", "/v1/reservations", doc, key))

    async def reservation(self, ident: str) -> AsyncReservation:
        """The one of that name."""
        return AsyncReservation(self, await self.call("GET", "/v1/reservations/%s" % ident))

    async def reservations(
        self, *, label: Optional[str] = None, owner: Optional[str] = None, state: Optional[str] = None
    ) -> List[AsyncReservation]:
        """Those that are not over, or in the states that are named (separated by commas)."""
        doc = await self.call("GET", target("/v1/reservations", {"label": label, "owner": owner, "state": state}))
        return [AsyncReservation(self, one) for one in doc["reservations"]]

    async def paths(self, a: str, b: str) -> d.Paths:
        """Which interfaces the packets between two hosts leave by."""
        return d.Paths.read(await self.call("GET", target("/v1/paths", {"from": a, "to": b})))

    async def events(self, after: Optional[str] = None, reservation: Optional[str] = None) -> AsyncIterator[d.Event]:
        """What happens, as it happens, for ever; a broken connection is taken up where it broke off."""
        async for event in self._events(Lines(after), reservation):
            if event.event != "begins":
                yield event

    async def _events(self, lines: Lines, reservation: Optional[str]) -> AsyncIterator[d.Event]:
        while True:
            try:
                async for event in self._stream(lines, reservation):
                    yield event
            except (OSError, EOFError, asyncio.TimeoutError):
                pass
            await asyncio.sleep(1)

    async def _stream(self, lines: Lines, reservation: Optional[str]) -> AsyncIterator[d.Event]:
        head = {"Accept": "text/event-stream"}
        if lines.last:
            head["Last-Event-ID"] = lines.last
        reader, writer = await self._open("GET", target("/v1/events", {"reservation": reservation}), head, None)
        try:
            status, chunked = await _head(reader)
            if status != 200 or not chunked:
                answer(status, await reader.read(MAX_ANSWER))
                return
            rest = b""
            async for piece in _chunks(reader):
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    for event in lines.take(line.decode().rstrip("\r")):
                        yield event
        finally:
            writer.close()

    async def webhook(self, url: str, *, reservation: Optional[str] = None, secret: Optional[str] = None) -> d.Webhook:
        """Has events delivered to a target, signed and in order."""
        doc = {name: value for name, value in (("url", url), ("reservation", reservation), ("secret", secret)) if value is not None}
        return d.Webhook.read(await self.call("POST", "/v1/webhooks", doc))

    async def webhooks(self) -> List[d.Webhook]:
        """The caller's."""
        return [d.Webhook.read(one) for one in (await self.call("GET", "/v1/webhooks"))["webhooks"]]

    async def remove_webhook(self, ident: str) -> None:
        """Delivers no more."""
        await self.call("DELETE", "/v1/webhooks/%s" % ident)


async def _head(reader: asyncio.StreamReader) -> Tuple[int, bool]:
    """The status, and whether the body comes in chunks."""
    line = (await reader.readline()).split(b" ", 2)
    if len(line) < 2 or not line[1].isdigit():
        raise EOFError("the broker closed the connection")
    chunked = False
    while True:
        name, _, value = (await reader.readline()).partition(b":")
        if not value:
            return int(line[1]), chunked
        chunked = chunked or (name.strip().lower() == b"transfer-encoding" and value.strip().lower() == b"chunked")


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The pieces of a chunked body (RFC 9112, section 7.1)."""
    while True:
        # Something is said every 15 s; three of them missing is a connection that is gone.
        head = await asyncio.wait_for(reader.readline(), 45)
        size = int(head.split(b";")[0].strip() or b"0", 16)
        if size == 0:
            return
        if size > MAX_ANSWER:
            raise Malformed(0, "nonsense", "the broker's answer is too large")
        yield await reader.readexactly(size)
        await reader.readexactly(2)
