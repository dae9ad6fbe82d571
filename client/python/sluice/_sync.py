"""A broker, call by call."""

from __future__ import annotations

import http.client
import socket
import time
from typing import Any, Iterator, List, Mapping, Optional, Sequence, Union

from . import _documents as d
from ._wire import MAX_ANSWER, Lines, Place, answer, fields, target


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: Optional[float]) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Reservation(d.State):
    """A reservation: a handle with what it was when it was last heard of."""

    def __init__(self, broker: "Broker", doc: Mapping[str, Any]) -> None:
        super().__init__()
        self._broker = broker
        self.take(doc)

    def __repr__(self) -> str:
        return "<Reservation %s %s>" % (self.id, self.state)

    def _call(self, method: str, tail: str = "", body: Optional[Mapping[str, Any]] = None) -> "Reservation":
        self.take(self._broker.call(method, "/v1/reservations/%s%s" % (self.id, tail), body))
        return self

    def refresh(self) -> "Reservation":
        """Asks how it is now."""
        return self._call("GET")

    def bind(self, from_port: Optional[int] = None, to_port: Optional[int] = None, *, protocol: Union[int, str, None] = None) -> "Reservation":
        """Says whose packets it is for, where it is between two hosts; what is left out may be anything."""
        return self._call("POST", "/bind", {"flow": d.flow(from_port, to_port, protocol)})

    def bind_part(self, part: int, binding: Optional[Mapping[str, Any]]) -> "Reservation":
        """Says whose packets or processes a part is for: ``{"pid": 42}``, ``{"flow": {...}}``; None: nobody's."""
        return self._call("POST", "/bind", {"part": part, "binding": None if binding is None else dict(binding)})

    def modify(
        self,
        *,
        forward: Optional[d.Rate] = None,
        reverse: Optional[d.Rate] = None,
        amounts: Optional[Sequence[Mapping[str, Any]]] = None,
        start: Optional[d.When] = None,
        end: Optional[d.When] = None,
        duration: Optional[d.Duration] = None,
        label: Optional[str] = None,
    ) -> "Reservation":
        """Changes it; if the new does not fit, the old stays and NoRoom is raised. A duration counts from now."""
        return self._call("PATCH", "", d.change(forward, reverse, amounts, start, end, duration, label))

    def commit(self) -> "Reservation":
        """Books what is held."""
        return self._call("POST", "/commit")

    def cancel(self) -> "Reservation":
        """Gives it back."""
        return self._call("DELETE")

    def history(self) -> List[d.Event]:
        """What happened to it."""
        doc = self._broker.call("GET", "/v1/reservations/%s/history" % self.id)
        return [d.Event.read("%s:%d" % (one["agent"], one["seq"]), one["event"], one) for one in doc["events"]]

    def events(self, after: Optional[str] = None) -> Iterator[d.Event]:
        """How it is (``state``), and what happens to it, as it happens, until it is over."""
        lines, said = Lines(after), None
        for event in self._broker._events(lines, self.id):
            if event.event != "begins":
                yield event
            # From here on nothing is missed; and what is over has ended at every agent.
            if event.event == "begins" or event.event in d.OVER:
                state = self.refresh().state
                if state != said:
                    said = state
                    yield d.Event.of_state(lines.last or "", self.id, state)
                if state in d.OVER:
                    return

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, *_: object) -> None:
        if self.refresh().state in ("held", "booked", "active", "suspended", "broken"):
            self.cancel()


class Broker:
    """A broker: ``Broker()`` is this machine's own, ``Broker("https://host:8443", ca=..., certificate=..., key=...)`` another."""

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

    def _connect(self, timeout: Optional[float]) -> http.client.HTTPConnection:
        place = self._place
        if place.socket is not None:
            return _UnixConnection(place.socket, timeout)
        if place.tls is not None:
            return http.client.HTTPSConnection(place.host, place.port, timeout=timeout, context=place.tls)
        return http.client.HTTPConnection(place.host, place.port, timeout=timeout)

    def call(self, method: str, path: str, body: Optional[Mapping[str, Any]] = None, key: Optional[str] = None) -> Any:
        """Any request of docs/openapi.json; the answer's document."""
        head, text = fields(body, key)
        connection = self._connect(self._timeout)
        try:
            connection.request(method, path, body=text, headers=head)
            reply = connection.getresponse()
            return answer(reply.status, reply.read(MAX_ANSWER))
        except (OSError, http.client.HTTPException) as error:
            raise self._place.away(error) from error
        finally:
            connection.close()

    def resources(self, start: Optional[d.When] = None, end: Optional[d.When] = None) -> List[d.Resource]:
        """What there is; with a window also what is free in it, step by step."""
        query = {"from": start and d.instant(start), "to": end and d.instant(end)}
        return d.resources(self.call("GET", target("/v1/resources", query)))

    def enquire(
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
        return d.Enquiry.read(self.call("POST", "/v1/enquiries", doc))

    def reserve(
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
    ) -> Reservation:
        """Reserves between two hosts, or single resources (``parts=[{"resource": "cpu", "cores": 0.5}]``), or both: all or nothing.

        More: ``earliest=True``, ``volume=BYTES, deadline=WHEN``, ``windows=[(start, end), ...]``, ``forward_at_least=RATE``,
        ``background=True``, ``hold=SECONDS``, ``label=TEXT``. ``key`` is an idempotency key. For how long must be said;
        ``duration="forever"`` has no end.
        """
        until, span = d.limited(end, duration, more)
        doc = d.wish(a, b, forward=forward, reverse=reverse, parts=parts, start=start, end=until, duration_=span, **more)
        return Reservation(self, self.call("POST", "/v1/reservations", doc, key))

    def reservation(self, ident: str) -> Reservation:
        """The one of that name."""
        return Reservation(self, self.call("GET", "/v1/reservations/%s" % ident))

    def reservations(self, *, label: Optional[str] = None, owner: Optional[str] = None, state: Optional[str] = None) -> List[Reservation]:
        """Those that are not over, or in the states that are named (separated by commas)."""
        doc = self.call("GET", target("/v1/reservations", {"label": label, "owner": owner, "state": state}))
        return [Reservation(self, one) for one in doc["reservations"]]

    def paths(self, a: str, b: str) -> d.Paths:
        """Which interfaces the packets between two hosts leave by."""
        return d.Paths.read(self.call("GET", target("/v1/paths", {"from": a, "to": b})))

    def events(self, after: Optional[str] = None, reservation: Optional[str] = None) -> Iterator[d.Event]:
        """What happens, as it happens, for ever; a broken connection is taken up where it broke off."""
        return (event for event in self._events(Lines(after), reservation) if event.event != "begins")

    def _events(self, lines: Lines, reservation: Optional[str]) -> Iterator[d.Event]:
        while True:
            try:
                for event in self._stream(lines, reservation):
                    yield event
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(1)

    def _stream(self, lines: Lines, reservation: Optional[str]) -> Iterator[d.Event]:
        # Something is said every 15 s; three of them missing is a connection that is gone.
        connection = self._connect(45)
        try:
            head = {"Accept": "text/event-stream"}
            if lines.last:
                head["Last-Event-ID"] = lines.last
            connection.request("GET", target("/v1/events", {"reservation": reservation}), headers=head)
            reply = connection.getresponse()
            if reply.status != 200:
                answer(reply.status, reply.read(MAX_ANSWER))
            while True:
                line = reply.readline(1 << 20)
                if not line:
                    return
                for event in lines.take(line.decode().rstrip("\r\n")):
                    yield event
        finally:
            connection.close()

    def webhook(self, url: str, *, reservation: Optional[str] = None, secret: Optional[str] = None) -> d.Webhook:
        """Has events delivered to a target, signed and in order."""
        doc = {name: value for name, value in (("url", url), ("reservation", reservation), ("secret", secret)) if value is not None}
        return d.Webhook.read(self.call("POST", "/v1/webhooks", doc))

    def webhooks(self) -> List[d.Webhook]:
        """The caller's."""
        return [d.Webhook.read(one) for one in self.call("GET", "/v1/webhooks")["webhooks"]]

    def remove_webhook(self, ident: str) -> None:
        """Delivers no more."""
        self.call("DELETE", "/v1/webhooks/%s" % ident)
