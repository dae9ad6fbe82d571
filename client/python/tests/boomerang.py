"""Boomerang from Python by a real agent: python3 boomerang.py SOCKET FAR_END. Reserves, waits for the end of its input, gives back.

Run by client/cli/tests/agents/forms.rs.
"""

import sys

import sluice

where, far_end = sys.argv[1:]
with sluice.boomerang.reserve(far_end, src_port=4000, dst_port=5004, forward="3mbit", reverse=500_000, socket=where) as session:
    assert (session.forward, session.reverse, session.hops) == (3_000_000, 500_000, (2, 2)), vars(session)
    sys.stdin.read()
    assert session.modify("4mbit", 500_000).forward == 4_000_000
    try:
        session.modify("20mbit", 500_000)
        raise AssertionError("twice as much as there is")
    except sluice.NoRoom as problem:
        assert "bit/s forward" in str(problem), problem
    lower = sluice.boomerang.reserve(
        far_end, src_port=4001, dst_port=5004, forward="20mbit", or_else=[("1mbit", 0)], socket=where
    )
    assert lower.forward == 1_000_000, lower.forward
    lower.release()
    with sluice.boomerang.reserve(
        far_end, src="10.0.0.0/24", dst="10.0.3.0/24", forward="1mbit", reverse="500kbit", socket=where
    ) as sites:
        assert (sites.forward, sites.reverse) == (1_000_000, 500_000), vars(sites)
    for wrong in ({}, {"src": "10.0.0.1/24", "dst": "10.0.3.0/24"}):
        try:
            sluice.boomerang.reserve(far_end, forward="1mbit", socket=where, **wrong)
            raise AssertionError(f"{wrong} is nobody's")
        except ValueError:
            pass
print("reserved, refused and given back")
