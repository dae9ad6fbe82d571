"""Where a broker is, and how its answers and event streams are read; no connection is opened here."""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import dataclass
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple
from urllib.parse import urlencode, urlsplit

from ._documents import Event
from ._errors import Malformed, Unavailable, problem

#: This machine's own broker.
SOCKET = "/run/sluice/broker.sock"
#: The most that is read of an answer, bytes.
MAX_ANSWER = 64 << 20


@dataclass(frozen=True)
class Place:
    """A Unix socket, or a host and port with or without TLS."""

    socket: Optional[str]
    host: str
    port: int
    tls: Optional[ssl.SSLContext]

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

    def away(self, error: object) -> Unavailable:
        """Nobody answers there."""
        where = self.socket or "%s:%d" % (self.host, self.port)
        return Unavailable(0, "unavailable", "no broker answers on %s (%s): start one with `sluice broker`" % (where, error))


def target(path: str, query: Optional[Mapping[str, Optional[str]]] = None) -> str:
    """A path with what stands behind its question mark."""
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
