#!/usr/bin/python3
"""What dist/packages-boot.sh does on its machine: reserves flows at the agent's socket, and sends packets of some of them and counts.

packages-flows.py reserve N: N bookings of UDP flows of 10 kbit/s each, from port 10000 on, to 192.0.2.2:5004.
packages-flows.py send M FILE: packets of the first M of them, until FILE.end is there; then FILE.counted says how many went out as best
effort, by the counters of the kernel's class (tc).
"""

import json
import os
import re
import socket
import subprocess
import sys
import time

SOURCE, TO, PORT = "192.0.2.1", "192.0.2.2", 5004
FIRST = 10000
#: The class of best effort: ARCHITECTURE.md, "The kernel plane".
BEST_EFFORT = "2"


def reserve(count: int) -> None:
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    agent.connect("/run/sluice/agent.sock")
    lines = agent.makefile("rw", encoding="utf-8")
    for number in range(count):
        flow = {"src": SOURCE, "dst": TO, "protocol": 17, "src_port": FIRST + number, "dst_port": PORT}
        part = {"resource": "net/eth0", "rate": 10_000, "binding": {"flow": flow}}
        lines.write(json.dumps({"id": number, "call": "book_create", "parts": [part], "duration_s": 3600}) + "\n")
        lines.flush()
        answer = json.loads(lines.readline())
        while answer.get("id") != number:
            answer = json.loads(lines.readline())
        if "ok" not in answer:
            sys.exit("number %d: %s" % (number, answer))


def best_effort() -> int:
    """The packets that the class has sent so far."""
    said = subprocess.run(["tc", "-s", "class", "show", "dev", "eth0"], capture_output=True, text=True, check=True).stdout
    # HTB where the kernel has no HFSC.
    blocks = re.split("class (?:htb|hfsc) ", said)
    for block in blocks:
        if block.split(" ", 1)[0].endswith(":" + BEST_EFFORT):
            words = block.split()
            return int(words[words.index("pkt", words.index("Sent")) - 1])
    sys.exit("no class of best effort: %s" % said)


def send(flows: int, file: str) -> None:
    senders = []
    for number in range(flows):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.bind((SOURCE, FIRST + number))
        sender.connect((TO, PORT))
        senders.append(sender)
    # A packet is far below the rate: nothing exceeds its bucket.
    before, sent, failed = best_effort(), 0, 0
    open(file + ".begun", "w").close()
    while not os.path.exists(file + ".end"):
        for sender in senders:
            try:
                sender.send(b"x" * 32)
                sent += 1
            except OSError:
                failed += 1
        time.sleep(0.1)
    lost = best_effort() - before
    # The counter sees what has no reservation: else it would prove nothing.
    stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stranger.bind((SOURCE, FIRST - 1))
    stranger.sendto(b"x" * 32, (TO, PORT))
    if best_effort() != before + lost + 1:
        sys.exit("a packet without a reservation is not counted")
    with open(file + ".new", "w") as out:
        out.write("%d of %d packets were best effort, %d could not be sent\n" % (lost, sent, failed))
    os.rename(file + ".new", file + ".counted")


if __name__ == "__main__":
    if sys.argv[1] == "reserve":
        reserve(int(sys.argv[2]))
    else:
        send(int(sys.argv[2]), sys.argv[3])
