"""Answers of every form, whole and broken, to both halves of the package: python3 answers.py.

Run by service/broker/tests/broker/python.rs; the broker is a socket that says what each case has written down.
"""

import asyncio
import os
import pathlib
import socket
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import sluice

LIST = b'{"webhooks": [{"id": "w", "url": "https://example.org/", "delivered": "", "failures": 0}]}'
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
GOOD = {
    "with its length": [OK + b"content-length: %d\r\n\r\n" % len(LIST) + LIST + b"more than was promised"],
    "until the end": [OK + b"\r\n", LIST],
    "in chunks": [CHUNKED + b"5\r\n" + LIST[:5] + b"\r\n", b"%X;a=b\r" % len(LIST[5:]), b"\n" + LIST[5:] + b"\r\n0\r\n\r\n"],
    "byte by byte": [bytes([one]) for one in OK + b"Content-Length: %d\r\n\r\n" % len(LIST) + LIST],
}
AWAY = {
    "nothing": [b""],
    "half a head": [OK],
    "another protocol": [b"220 smtp.example.org ESMTP\r\n\r\n"],
    "no status": [b"HTTP/1.1 OK\r\n\r\n"],
    "half a body": [OK + b"Content-Length: 100\r\n\r\n" + LIST[:10]],
    "half a chunk": [CHUNKED + b"5A\r\n" + LIST[:10]],
    "no more chunks": [CHUNKED + b"5\r\n" + LIST[:5] + b"\r\n"],
    "a chunk without a size": [CHUNKED + b"x\r\n"],
    "a line without end": [OK + b"a" * (1 << 17)],
    "a head without end": [OK + b"a: b\r\n" * 200],
}
MALFORMED = {
    "a chunk that is too large": [CHUNKED + b"FFFFFFFFFF\r\n"],
    "a negative chunk": [CHUNKED + b"-5\r\n"],
    "a body that is too large": [OK + b"Content-Length: 99999999999\r\n\r\n"],
    "no JSON": [OK + b"Content-Length: 1\r\n\r\n{"],
}
REFUSED = b'{"type": "/problems/no_room", "detail": "no", "refusal": {"reason": "no_room", "message": "no", "unheard": 1}}'
EVENT = b'id: a:7\nevent: bound\ndata: {"reservation": "r", "agent": "a", "from": 1.5, "binding": {"pid": 42}}\n\n'


class Server:
    """A socket that answers each connection with the pieces of the next case."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(path)
        self.socket.listen()
        self.heads = []

    def says(self, pieces, pause=0.0, hold=0.0):
        self.thread = threading.Thread(target=self._serve, args=(pieces, pause, hold))
        self.thread.start()

    def _serve(self, pieces, pause, hold):
        peer, _ = self.socket.accept()
        with peer:
            head = b""
            while b"\r\n\r\n" not in head:
                head += peer.recv(4096)
            self.heads.append(head.decode())
            try:
                for piece in pieces:
                    peer.sendall(piece)
                    time.sleep(pause)
                time.sleep(hold)
            except OSError:  # it had enough
                pass


async def first(events):
    async for event in events:
        await events.aclose()
        return event


#: Either half: a call, and the first event of a stream.
HALVES = (
    (lambda call, **of: call(sluice.Broker(path, **of)), lambda: next(sluice.Broker(path).events(after="a:6"))),
    (
        lambda call, **of: asyncio.run(call(sluice.AsyncBroker(path, **of))),
        lambda: asyncio.run(first(sluice.AsyncBroker(path).events(after="a:6"))),
    ),
)


def refused(kind, call):
    try:
        call()
    except kind as problem:
        return problem
    raise AssertionError("not refused with %s" % kind)


def both(server, ask, event):
    for name, pieces in GOOD.items():
        server.says(pieces)
        assert ask(lambda broker: broker.webhooks())[0].id == "w", name
        server.thread.join()
    for kind, cases in ((sluice.Unavailable, AWAY), (sluice.Malformed, MALFORMED)):
        for name, pieces in cases.items():
            server.says(pieces)
            problem = refused(kind, lambda: ask(lambda broker: broker.webhooks()))
            assert type(problem) is kind, (name, problem)
            server.thread.join()
    server.says([b"HTTP/1.1 204 No Content\r\n\r\n"], hold=2.0)
    assert ask(lambda broker: broker.remove_webhook("w"), timeout=1.5) is None
    server.thread.join()
    server.says([b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n" % len(REFUSED) + REFUSED])
    problem = refused(sluice.NoRoom, lambda: ask(lambda broker: broker.reserve("a", "b", duration=1, key="k")))
    assert (problem.status, problem.refusal["unheard"], problem.alternatives) == (409, 1, []), vars(problem)
    server.thread.join()
    assert "Idempotency-Key: k\r\n" in server.heads[-1] and "Host: localhost\r\n" in server.heads[-1], server.heads[-1]
    # A token of a virtual organisation goes with every request; the file is the environment's or an argument's.
    with tempfile.NamedTemporaryFile("w", suffix=".token") as token:
        token.write("EtokenA==\n")
        token.flush()
        os.environ["SLUICE_TOKEN"] = token.name
        server.says(GOOD["until the end"])
        assert ask(lambda broker: broker.webhooks())[0].id == "w"
        server.thread.join()
        del os.environ["SLUICE_TOKEN"]
    assert "Sluice-Token: EtokenA==\r\n" in server.heads[-1], server.heads[-1]
    # The limit is for the whole call, even if something comes all the time.
    server.says([OK] + [b"a: b\r\n"] * 50, pause=0.1)
    begun = time.monotonic()
    assert "in time" in str(refused(sluice.Unavailable, lambda: ask(lambda broker: broker.webhooks(), timeout=0.3)))
    assert 0.2 < time.monotonic() - begun < 4
    server.thread.join()
    refused(ValueError, lambda: ask(lambda broker: broker.call("GET", "/v1/webhooks", key="a\r\nX-Other: b")))
    for whole in (CHUNKED + b"%x\r\n" % len(EVENT) + EVENT + b"\r\n", OK + b"\r\n" + EVENT.replace(b"\n", b"\r\n")):
        server.says([whole[:90], whole[90:]], pause=0.01, hold=0.1)
        got = event()
        assert (got.id, got.event, got.before, got.binding) == ("a:7", "bound", 1.5, {"pid": 42}), got
        server.thread.join()
        assert "Last-Event-ID: a:6\r\n" in server.heads[-1], server.heads[-1]


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "broker.sock")
    server = Server(path)
    for ask, event in HALVES:
        both(server, ask, event)
    server.socket.close()
print("answers of every form were read")
