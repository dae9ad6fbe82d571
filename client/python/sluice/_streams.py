"""Connections to a broker, awaited and waiting: all that the two halves of the package do not share.

Both have a limit of time, which counts for everything until :meth:`within` sets another. Whatever goes wrong with a
connection is an OSError, or an EOFError where it ends too early.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Awaitable, Callable, TypeVar

from ._wire import Place

T = TypeVar("T")
#: A call without arguments, awaited and waiting.
AsyncCall = Callable[[], Awaitable[T]]
Call = Callable[[], T]

#: The longest line of a head or between chunks, bytes.
MAX_LINE = 1 << 16
_LATE = "it did not answer in time"
_LONG = "it sent a line that is too long"
_ENDED = "it closed the connection"


class AsyncStream:
    """A connection whose calls are awaited, on asyncio's streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, until: float) -> None:
        self._reader, self._writer, self._until = reader, writer, until

    @staticmethod
    async def open(place: Place, seconds: float) -> "AsyncStream":
        """Connects, over TLS if the place asks for it."""
        until = time.monotonic() + seconds
        if place.socket is not None:
            opening = asyncio.open_unix_connection(place.socket, limit=MAX_LINE)
        else:
            name = place.host if place.tls else None
            opening = asyncio.open_connection(place.host, place.port, ssl=place.tls, server_hostname=name, limit=MAX_LINE)
        reader, writer = await _before(until, opening)
        return AsyncStream(reader, writer, until)

    def within(self, seconds: float) -> None:
        """Sets the limit anew: all that follows must be done in so many seconds."""
        self._until = time.monotonic() + seconds

    async def write(self, data: bytes) -> None:
        """Sends all of it."""
        self._writer.write(data)
        await _before(self._until, self._writer.drain())

    async def read(self) -> bytes:
        """Reads what has come, at least a byte; nothing at the end of the connection."""
        return await _before(self._until, self._reader.read(65536))

    async def readexactly(self, count: int) -> bytes:
        """Reads so many bytes."""
        return await _before(self._until, self._reader.readexactly(count))

    async def readline(self) -> bytes:
        """Reads a line with its end; the rest, without one, at the end of the connection."""
        try:
            return await _before(self._until, self._reader.readline())
        except ValueError:
            raise OSError(_LONG) from None

    def close(self) -> None:
        """Closes the connection."""
        self._writer.close()

    def fileno(self) -> int:
        """Its descriptor; -1: it is closed."""
        return int(self._writer.get_extra_info("socket").fileno())

    @staticmethod
    async def pause(seconds: float) -> None:
        """Does nothing for a while."""
        await asyncio.sleep(seconds)


async def _before(until: float, work: Awaitable[T]) -> T:
    try:
        return await asyncio.wait_for(work, max(until - time.monotonic(), 0))
    except asyncio.TimeoutError:
        raise TimeoutError(_LATE) from None


class Stream:
    """A connection whose calls wait, on a socket."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._socket, self._until = sock, until
        self._got = b""

    @staticmethod
    def open(place: Place, seconds: float) -> "Stream":
        """Connects, over TLS if the place asks for it."""
        until = time.monotonic() + seconds
        if place.socket is None:
            sock = socket.create_connection((place.host, place.port), seconds)
        else:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream = Stream(sock, until)
        try:
            sock.settimeout(stream._left())
            if place.socket is not None:
                sock.connect(place.socket)
            elif place.tls is not None:
                stream._socket = place.tls.wrap_socket(sock, server_hostname=place.host)
        except BaseException:
            sock.close()
            raise
        return stream

    def within(self, seconds: float) -> None:
        """Sets the limit anew: all that follows must be done in so many seconds."""
        self._until = time.monotonic() + seconds

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError(_LATE)
        return left

    def _fill(self) -> bool:
        """Reads more; False: there is no more."""
        self._socket.settimeout(self._left())
        try:
            piece = self._socket.recv(65536)
        except socket.timeout:
            raise TimeoutError(_LATE) from None
        self._got += piece
        return bool(piece)

    def _take(self, count: int) -> bytes:
        taken, self._got = self._got[:count], self._got[count:]
        return taken

    def write(self, data: bytes) -> None:
        """Sends all of it."""
        self._socket.settimeout(self._left())
        self._socket.sendall(data)

    def read(self) -> bytes:
        """Reads what has come, at least a byte; nothing at the end of the connection."""
        if not self._got:
            self._fill()
        return self._take(len(self._got))

    def readexactly(self, count: int) -> bytes:
        """Reads so many bytes."""
        pieces = [self._take(count)]
        count -= len(pieces[0])
        while count > 0:
            if not self._fill():
                raise EOFError(_ENDED)
            pieces.append(self._take(count))
            count -= len(pieces[-1])
        return b"".join(pieces)

    def readline(self) -> bytes:
        """Reads a line with its end; the rest, without one, at the end of the connection."""
        while b"\n" not in self._got:
            if len(self._got) > MAX_LINE:
                raise OSError(_LONG)
            if not self._fill():
                break
        return self._take(self._got.find(b"\n") + 1 or len(self._got))

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def fileno(self) -> int:
        """Its descriptor; -1: it is closed."""
        return self._socket.fileno()

    @staticmethod
    def pause(seconds: float) -> None:
        """Does nothing for a while."""
        time.sleep(seconds)
