#!/usr/bin/python3
"""Commands from this machine to an emulated one (dist/emulated.sh), over ports of virtio-serial: both ends.

emulated-talk.py serve: in the machine, as a service. It runs what is asked at each port, one command a port at a time.
emulated-talk.py run FOLDER COMMAND [ARGUMENT ...]: on this machine. FOLDER has the other ends of the ports, as sockets. The command has
no standard input; its output and its status are this program's. If this program ends, so does the command.

A request is a line of JSON. An answer is frames: a letter, a length of four octets, what it is about. A port has a memory: what an
earlier caller did not read is still in it, so an answer begins with the word that its request said.
"""

import fcntl
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time

PORTS = 4
#: The machine's name of a port, as udev makes it.
DEVICE = "/dev/virtio-ports/commands.%d"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TERM": "dumb", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
#: How long a command's output is waited for after its end, if a child of it holds the pipe.
REST_S = 0.5
#: How long a caller may seem to be gone: the machine learns that one came later than it reads what that one wrote.
GONE_S = 3


def frame(kind: bytes, about: bytes) -> bytes:
    return kind + len(about).to_bytes(4, "big") + about


def told(port: int, what: int) -> bool:
    poll = select.poll()
    poll.register(port, what)
    return any(seen & what for _, seen in poll.poll(0))


def request(port: int) -> dict:
    """The next line of somebody who stays until its end."""
    line = b""
    while not line.endswith(b"\n"):
        some = os.read(port, 1 << 16)
        if not some:
            # Nobody is at the other end.
            line = b""
            time.sleep(0.2)
        line += some
    return json.loads(line.rsplit(b"\n", 2)[-2])


def answer(port: int, asked: dict) -> None:
    def say(kind: bytes, about: bytes) -> None:
        rest = memoryview(frame(kind, about))
        while rest:
            rest = rest[os.write(port, rest) :]

    say(b"w", asked["word"].encode())
    try:
        child = subprocess.Popen(
            asked["command"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd="/", start_new_session=True
        )
    except OSError as failed:
        say(b"e", ("%s\n" % failed).encode())
        return say(b"x", b"127")
    pipes = {child.stdout.fileno(): b"o", child.stderr.fileno(): b"e"}
    ended, here = None, time.monotonic()
    while pipes:
        ready = select.select(list(pipes), [], [], 0.1)[0]
        if not told(port, select.POLLHUP):
            here = time.monotonic()
        # A caller writes once: more is from the next.
        if time.monotonic() - here > GONE_S or told(port, select.POLLIN):
            os.killpg(child.pid, signal.SIGKILL)
            break
        for pipe in ready:
            some = os.read(pipe, 1 << 16)
            if some:
                say(pipes[pipe], some)
            else:
                del pipes[pipe]
        if child.poll() is not None:
            ended = ended or time.monotonic()
            if not ready and time.monotonic() - ended > REST_S:
                break
    status = child.wait()
    child.stdout.close()
    child.stderr.close()
    say(b"x", b"%d" % (status if status >= 0 else 128 - status))


def serve_port(number: int) -> None:
    while not os.path.exists(DEVICE % number):
        time.sleep(0.1)
    port = os.open(DEVICE % number, os.O_RDWR)
    while True:
        try:
            answer(port, request(port))
        except (ValueError, KeyError, IndexError, OSError) as failed:
            print("port %d: %s" % (number, failed), file=sys.stderr, flush=True)


def free_port(folder: str) -> socket.socket:
    """A port that no other caller has, and will not have as long as this program runs."""
    while True:
        for number in range(PORTS):
            lock = os.open("%s/%d.lock" % (folder, number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            port = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            port.connect("%s/%d" % (folder, number))
            return port
        time.sleep(0.1)


def run(folder: str, command: list) -> int:
    try:
        port = free_port(folder)
        word = secrets.token_hex(16)
        port.sendall(json.dumps({"word": word, "command": command}).encode() + b"\n")
    except OSError as failed:
        print("emulated: the machine is not there: %s" % failed, file=sys.stderr)
        return 255
    begins, said, begun = frame(b"w", word.encode()), b"", False
    while True:
        try:
            some = port.recv(1 << 16)
        except ConnectionError:
            some = b""
        if not some:
            print("emulated: the machine went before the command ended", file=sys.stderr)
            return 255
        said += some
        if not begun:
            if begins not in said:
                continue
            said, begun = said.split(begins, 1)[1], True
        while len(said) >= 5 and len(said) >= 5 + int.from_bytes(said[1:5], "big"):
            end = 5 + int.from_bytes(said[1:5], "big")
            kind, about, said = said[:1], said[5:end], said[end:]
            if kind == b"x":
                return int(about)
            out = sys.stdout if kind == b"o" else sys.stderr
            out.buffer.write(about)
            out.buffer.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if sys.argv[1] == "serve":
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        threads = [threading.Thread(target=serve_port, args=(number,)) for number in range(PORTS)]
        for thread in threads:
            thread.start()
    else:
        try:
            sys.exit(run(sys.argv[2], sys.argv[3:]))
        except KeyboardInterrupt:
            sys.exit(130)
