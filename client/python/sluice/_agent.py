"""An agent's local socket: JSON, one object a line, calls there and answers and events back."""

from __future__ import annotations

import json
import os
import socket
import time
from collections import deque
from typing import Any, Deque, Dict, Mapping, Optional

from ._errors import NotAllowed, Problem, Unavailable

#: This machine's own agent.
SOCKET = "/run/sluice/agent.sock"
#: The longest line of either side, bytes.
MAX_LINE = 8 << 20


class Agent:
    """A connection: one application in the agent's eyes."""

    def __init__(self, path: Optional[str] = None, timeout: float = 10.0) -> None:
        self._path = path or os.environ.get("SLUICE_SOCKET") or SOCKET
        self._timeout = timeout
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(self._path)
        except OSError as error:
            self._socket.close()
            raise self._away(error) from error
        self._read = b""
        self._next = 1
        self._events: Deque[Dict[str, Any]] = deque(maxlen=4096)

    def _away(self, error: object) -> Unavailable:
        return Unavailable(0, "unavailable", "no agent answers on %s (%s): start one with `sluice agent`" % (self._path, error))

    def close(self) -> None:
        """What is bound to this connection is given back."""
        self._socket.close()

    def call(self, call: str, **of: Any) -> Any:
        """A call and its answer; events that come meanwhile are kept."""
        ident, self._next = self._next, self._next + 1
        line = json.dumps({"id": ident, "call": call, **of}, allow_nan=False).encode() + b"\n"
        until = time.monotonic() + self._timeout
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(line)
        except OSError as error:
            raise self._away(error) from error
        while True:
            said = self._line(until)
            if said is None:
                raise self._away("no answer in time")
            if "event" in said:
                self._events.append(said["event"])
            elif said.get("id") in (ident, 0) and "error" in said:
                raise problem(said["error"])
            elif said.get("id") == ident:
                return said["ok"]

    def event(self, patience: float) -> Optional[Mapping[str, Any]]:
        """The next event; None: none comes in time."""
        until = time.monotonic() + patience
        while not self._events:
            said = self._line(until)
            if said is None:
                return None
            if "event" in said:
                self._events.append(said["event"])
        return self._events.popleft()

    def _line(self, until: float) -> Optional[Dict[str, Any]]:
        while b"\n" not in self._read:
            left = until - time.monotonic()
            if left <= 0:
                return None
            self._socket.settimeout(left)
            try:
                piece = self._socket.recv(65536)
            except socket.timeout:
                return None
            except OSError as error:
                raise self._away(error) from error
            if not piece or len(self._read) > MAX_LINE:
                raise self._away("it closed the connection")
            self._read += piece
        line, self._read = self._read.split(b"\n", 1)
        doc: Dict[str, Any] = json.loads(line)
        return doc


def problem(error: Mapping[str, Any]) -> Problem:
    """The exception of an agent's refusal."""
    sort = {"refused": NotAllowed, "busy": Unavailable, "fault": Unavailable}.get(error.get("kind", ""), Problem)
    return sort(0, str(error.get("kind")), str(error.get("message")), error.get("refusal"))
