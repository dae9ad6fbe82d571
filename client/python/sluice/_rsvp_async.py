"""Sessions of RSVP with ``await``; ``_rsvp_sync.py``, where calls wait, is generated from this file by client/python/generate.py."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from typing import Any, AsyncIterator, Deque, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _agent
from . import _signal as s
from ._errors import Unavailable
from ._streams import AsyncStream
from ._wire import Place

#: How long a call may take, seconds.
PATIENCE = 10.0
#: How long to wait where nobody says how long.
EVER = 365 * 86400.0


class AsyncSession:
    """One session of RSVP at this machine's agent, on a connection of its own; ``AsyncSession.open`` makes it.

    What it registered (senders, a receiver, a reservation) ends with it: when it is closed, and when the program ends, however
    that happens. While the agent is away calls raise Unavailable; when it is back everything is registered anew.
    """

    def __init__(self, path: str, session: Dict[str, Any]) -> None:
        self._place = Place(path, "localhost", 0, None)
        self._session = session
        self._stream: Optional[AsyncStream] = None
        self._next = 1
        self._events: Deque[s.SessionEvent] = deque(maxlen=s.MOST_EVENTS)
        self._registered: Dict[s.Sender, Dict[str, Any]] = {}
        self._receives = False
        self._wish: Optional[Dict[str, Any]] = None
        self._known: Dict[s.Sender, s.PathEvent] = {}
        self._closed = False

    @staticmethod
    async def open(dst: str, dst_port: int, protocol: Union[int, str] = "udp", *, socket: Optional[str] = None) -> "AsyncSession":
        """The session of packets to this address and port; ``socket`` is the agent's, by default this machine's."""
        path = socket or os.environ.get("SLUICE_SOCKET") or _agent.SOCKET
        session = AsyncSession(path, s.session_doc(dst, dst_port, protocol))
        await session._connect()
        return session

    @property
    def senders(self) -> Dict[s.Sender, s.PathEvent]:
        """The senders whose Path messages come, as far as events were read."""
        return dict(self._known)

    async def send(self, src: str, src_port: int, tspec: s.Tspec, *, ttl: int = 63) -> s.Sender:
        """Registers a sender of this host, or changes its traffic: Path messages go out from now on. There may be several."""
        sender = s.Sender(src, src_port)
        said = {"sender": sender.doc(), "tspec": tspec.doc(), "ttl": ttl}
        await self._call("sender", **said)
        self._registered[sender] = said
        return sender

    async def send_no_more(self, sender: s.Sender) -> None:
        """Withdraws a sender."""
        self._registered.pop(sender, None)
        await self._call("sender_gone", sender=sender.doc())

    async def receive(self) -> None:
        """Asks for the senders of the session: PathEvent and PathGone follow."""
        await self._call("receiver")
        self._receives = True

    async def reserve(
        self,
        style: str,
        flowspecs: Union[s.FlowSpec, Sequence[s.FlowSpec]],
        senders: Sequence[Union[s.Sender, Tuple[str, int]]] = (),
        *,
        confirm: bool = True,
    ) -> None:
        """Asks for a reservation, or changes it. ``ff`` has a flowspec for each sender, ``se`` one for all of them, ``wf`` one and
        no senders. Whether it holds comes as Confirmed or ErrorEvent."""
        wish = s.reserve_doc(style, senders, flowspecs, confirm)
        await self._call("reserve", **wish)
        self._wish = wish

    async def reserve_no_more(self) -> None:
        """Gives the reservation back; events of paths go on."""
        if self._wish is None:
            return
        self._wish = None
        await self._call("release")
        # Where the network had ended it already, this has ended the events of paths.
        if self._receives:
            await self._call("receiver")

    async def event(self, patience: Optional[float] = None) -> Optional[s.SessionEvent]:
        """The next event; None: none came within so many seconds."""
        until = time.monotonic() + (EVER if patience is None else patience)
        while not self._events:
            left = until - time.monotonic()
            if left <= 0:
                return None
            if self._stream is None:
                await self._again(left)
                continue
            try:
                said = await self._line(self._stream, left)
            except (OSError, EOFError) as error:
                if isinstance(error, TimeoutError):
                    return None
                self._went_away()
                continue
            self._keep(said)
        return self._events.popleft()

    async def events(self) -> AsyncIterator[s.SessionEvent]:
        """The events as they happen, until the session is closed."""
        while not self._closed:
            event = await self.event()
            if event is not None:
                yield event

    def close(self) -> None:
        """Ends the session, and what it registered."""
        self._closed = True
        self._drop()

    async def __aenter__(self) -> "AsyncSession":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _drop(self) -> None:
        if self._stream is not None:
            self._stream.close()
            s.OPEN.discard(self._stream)
            self._stream = None

    def _went_away(self) -> None:
        self._drop()
        self._known.clear()
        self._events.append(s.AgentAway())

    def _unavailable(self, error: object) -> Unavailable:
        what = "no agent answers on %s (%s): start one with `sluice agent`" % (self._place.socket, error)
        return Unavailable(0, "unavailable", what)

    async def _connect(self) -> None:
        try:
            self._stream = await AsyncStream.open(self._place, PATIENCE)
        except OSError as error:
            raise self._unavailable(error) from error
        s.OPEN.add(self._stream)
        if self._receives:
            await self._call("receiver")
        for said in list(self._registered.values()):
            await self._call("sender", **said)
        if self._wish is not None:
            await self._call("reserve", **self._wish)

    async def _again(self, left: float) -> None:
        """One more try to connect, after a pause."""
        if self._closed:
            raise self._unavailable("this session is closed")
        await AsyncStream.pause(min(s.RETRY, left))
        try:
            await self._connect()
        except Unavailable:
            self._drop()

    async def _call(self, call: str, **of: Any) -> None:
        """Makes a call; events that come meanwhile are kept."""
        if self._stream is None:
            raise self._unavailable("this session is closed" if self._closed else "it is away")
        ident, self._next = self._next, self._next + 1
        line = json.dumps({"id": ident, "call": call, "session": self._session, **of}, allow_nan=False).encode() + b"\n"
        until = time.monotonic() + PATIENCE
        try:
            self._stream.within(PATIENCE)
            await self._stream.write(line)
            while True:
                said = await self._line(self._stream, max(until - time.monotonic(), 0.0))
                if said.get("id") in (ident, 0) and "error" in said:
                    raise _agent.problem(said["error"])
                if said.get("id") == ident:
                    return
                self._keep(said)
        except (OSError, EOFError) as error:
            # An answer may be on its way: the connection serves no more.
            self._went_away()
            raise self._unavailable(error) from error

    async def _line(self, stream: AsyncStream, seconds: float) -> Mapping[str, Any]:
        stream.within(seconds)
        line = await stream.readline()
        if not line.endswith(b"\n"):
            raise EOFError("it closed the connection")
        said: Mapping[str, Any] = json.loads(line)
        return said

    def _keep(self, said: Mapping[str, Any]) -> None:
        filters: List[s.Sender] = [s.Sender.read(one) for one in self._wish["senders"]] if self._wish else []
        event = s.event(said.get("event", {}), self._session, filters)
        if isinstance(event, s.PathEvent) and (event.sender in self._known or len(self._known) < s.MOST_SENDERS):
            self._known[event.sender] = event
        elif isinstance(event, s.PathGone):
            self._known.pop(event.sender, None)
        if event is not None:
            self._events.append(event)
