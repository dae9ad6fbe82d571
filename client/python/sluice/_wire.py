"""The place of a broker, and HTTP and event streams as bytes and lines; no connection is opened here."""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple
from urllib.parse import urlencode, urlsplit

from . import _login
from ._documents import Event
from ._errors import Malformed, Unavailable, problem

#: This machine's own broker.
SOCKET = "/run/sluice/broker.sock"
#: The most that is read of an answer, bytes.
MAX_ANSWER = 64 << 20
#: The longest text of a token of a virtual organisation.
MAX_TOKEN = 11 << 10
#: The most lines of an answer's head.
MAX_HEAD = 100


@dataclass(frozen=True)
class Place:
    """A Unix socket, or a host and port with or without TLS."""

    socket: Optional[str]
    host: str
    port: int
    tls: Optional[ssl.SSLContext]
    #: The token of a virtual organisation that every request shows.
    token: Optional[str] = None

    @staticmethod
    def of(where: Optional[str], ca: Optional[str], certificate: Optional[str], key: Optional[str]) -> "Place":
        where = where or os.environ.get("SLUICE_BROKER") or SOCKET
        parts = urlsplit(where)
        if parts.scheme in ("", "unix"):
            return Place(parts.path or where, "localhost", 0, None)
        if parts.scheme == "http":
            return Place(None, parts.hostname or "localhost", parts.port or 80, None)
        if parts.scheme != "https":
            raise ValueError("%r is no broker: a path of a Unix socket, or https://HOST:PORT" % where)
        context = ssl.create_default_context(cafile=ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        if certificate:
            context.load_cert_chain(certificate, key)
        return Place(None, parts.hostname or "localhost", parts.port or 8443, context)

    @staticmethod
    def all(
        where: Optional[str], ca: Optional[str], certificate: Optional[str], key: Optional[str], token: Optional[str]
    ) -> "List[Place]":
        """Several of which one leads, separated by commas; ``token`` is a file. What is not named is that of ``sluice login``."""
        said = where or os.environ.get("SLUICE_BROKER")
        named = bool(ca or certificate or key)
        kept = _login.read() if not said or ("https:" in said and not named) else {}
        said = said or kept.get("broker") or SOCKET
        if not named:
            ca, certificate, key = kept.get("ca"), kept.get("certificate"), kept.get("certificate_key")
        token = token or os.environ.get("SLUICE_TOKEN") or kept.get("token")
        shown = None
        if token:
            with open(token, encoding="ascii") as file:
                shown = file.read(MAX_TOKEN).strip()
        places = [Place.of(one.strip(), ca, certificate, key) for one in said.split(",")]
        return [replace(place, token=shown) for place in places]

    @property
    def authority(self) -> str:
        """The host and port as ``Host`` has them (RFC 9110, section 7.2)."""
        host = "[%s]" % self.host if ":" in self.host else self.host
        return "%s:%d" % (host, self.port) if self.port else host

    def away(self, error: object) -> Unavailable:
        """The exception of a broker that does not answer."""
        where = self.socket or "%s:%d" % (self.host, self.port)
        return Unavailable(0, "unavailable", "no broker answers on %s (%s): start one with `sluice broker`" % (where, error))


def target(path: str, query: Optional[Mapping[str, Optional[str]]] = None) -> str:
    """A path with its query."""
    said = {name: value for name, value in (query or {}).items() if value is not None}
    return path + ("?" + urlencode(said, safe=":,/").replace("+", "%20") if said else "")


def fields(body: Optional[Mapping[str, Any]], key: Optional[str]) -> Tuple[Dict[str, str], Optional[bytes]]:
    """The head's fields and the body of a request."""
    head = {"Accept": "application/json"}
    if key:
        head["Idempotency-Key"] = key
    if body is None:
        return head, None
    head["Content-Type"] = "application/json"
    return head, json.dumps(body, allow_nan=False).encode()


def request(place: Place, method: str, path: str, head: Mapping[str, str], text: Optional[bytes]) -> bytes:
    """A request on a connection of its own (RFC 9112)."""
    said = {"Host": place.authority, "Connection": "close", **head}
    if text is not None or method in ("POST", "PATCH"):
        said["Content-Length"] = str(len(text or b""))
    if place.token:
        said["Sluice-Token"] = place.token
    lines = ["%s %s HTTP/1.1" % (method, path)] + ["%s: %s" % one for one in said.items()]
    if any(not line.isprintable() for line in lines):
        raise ValueError("a line of the request would break: %r" % lines)
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + (text or b"")


class Head:
    """The head of an answer, out of lines (RFC 9112, sections 4 to 6)."""

    def __init__(self) -> None:
        self.status = 0
        #: True if the body comes in chunks.
        self.chunked = False
        #: The length of the body, bytes; None: it ends with the connection.
        self.length: Optional[int] = None
        self._lines = 0

    def take(self, line: bytes) -> bool:
        """Takes a line with its end; True: the head is whole."""
        self._lines += 1
        if not line.endswith(b"\n") or self._lines > MAX_HEAD:
            raise EOFError("it closed the connection" if self._lines <= MAX_HEAD else "its answer's head has no end")
        if self._lines == 1:
            words = line.split(b" ", 2)
            if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].strip().isdigit():
                raise OSError("it does not speak HTTP")
            self.status = int(words[1])
            return False
        name, _, value = line.partition(b":")
        name, value = name.strip().lower(), value.strip().lower()
        if name == b"transfer-encoding":
            self.chunked = value == b"chunked"
        elif name == b"content-length" and value.isdigit():
            self.length = int(value)
        if line.strip() == b"" and self.status in (204, 304):
            self.length = 0
        return line.strip() == b""


def chunk(line: bytes) -> int:
    """The size of a chunk, from the line before it; 0: there are no more (RFC 9112, section 7.1)."""
    if not line:
        raise EOFError("it closed the connection")
    try:
        size = int(line.split(b";")[0].strip(), 16)
    except ValueError:
        raise OSError("it sent a chunk without a size") from None
    if not 0 <= size <= MAX_ANSWER:
        raise Malformed(0, "nonsense", "the broker's answer is too large")
    return size


class Turns:
    """Which of several brokers is asked: the one that answered last, and the next where it is away or a standby."""

    def __init__(self, places: "List[Place]") -> None:
        self._places = places
        self._number = 0
        self._asked = 0

    @property
    def place(self) -> Place:
        """The one that is asked now."""
        return self._places[self._number]

    @property
    def several(self) -> bool:
        """True if there is another one."""
        return len(self._places) > 1

    def pass_on(self) -> float:
        """The next one; the seconds before it is asked: not again at once when all were asked."""
        self._number = (self._number + 1) % len(self._places)
        self._asked += 1
        return 0.1 if self._asked % len(self._places) == 0 else 0.0


def is_standby(status: int, body: bytes) -> bool:
    """True if another broker leads, and this one has changed nothing."""
    try:
        return status == 503 and str(json.loads(body)["type"]).endswith("/standby")
    except (ValueError, KeyError, TypeError):
        return False


def answer(status: int, body: bytes) -> Any:
    """The document of an answer, or the exception that it is."""
    try:
        doc = json.loads(body) if body else None
    except ValueError:
        if 200 <= status < 300:
            raise Malformed(status, "nonsense", "the broker's answer is no JSON") from None
        doc = None
    if not 200 <= status < 300:
        raise problem(status, doc)
    return doc


class Lines:
    """Server-sent events out of lines (HTML standard, section 9.2.6)."""

    def __init__(self, after: Optional[str]) -> None:
        #: The id of the last event.
        self.last = after
        self._kind = ""
        self._data = ""

    def take(self, line: str) -> Iterator[Event]:
        """Takes a line without its end; gives the event that it completes; ``begins`` is where an agent is followed from."""
        if not line:
            kind, data = self._kind, self._data
            self._kind = self._data = ""
            if data and kind:
                yield Event.read(self.last or "", kind, json.loads(data))
            return
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "id":
            self.last = value
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data += value


def of_state(place: str, reservation: str, state: str) -> Event:
    """The event that says the state of a reservation."""
    return Event(
        id=place,
        event="state",
        reservation=reservation,
        agent="",
        way=None,
        part=None,
        at=datetime.now(timezone.utc),
        before=None,
        now=None,
        text=state,
    )
