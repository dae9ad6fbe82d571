"""Rates, spans and times as people write them, and as the broker has them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Mapping, Optional, Union

#: Bit/s, or a text as tc writes it.
Rate = Union[int, str]
#: Seconds, a timedelta, or a text with a unit.
Duration = Union[int, float, str, timedelta]
#: A datetime with a zone, or RFC 3339.
When = Union[datetime, str]

_RATES = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9, "tbit": 10**12, "bps": 8, "kbps": 8 * 10**3, "mbps": 8 * 10**6}
_SPANS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_PROTOCOLS = {"tcp": 6, "udp": 17}


def _united(text: str, units: Mapping[str, Union[int, float]], what: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", text.lower())
    if not found or found.group(2) not in units:
        raise ValueError("%r is no %s: write a number and one of %s" % (text, what, ", ".join(units)))
    return float(found.group(1)) * units[found.group(2)]


def rate(value: Rate) -> int:
    """Bit/s, from a number of them or as tc writes it: ``"8mbit"``, ``"125kbps"`` (bytes a second)."""
    if isinstance(value, str):
        return round(_united(value, _RATES, "rate"))
    if isinstance(value, bool) or value != int(value) or value < 0:
        raise ValueError("a rate is a whole number of bit/s, not %r" % (value,))
    return int(value)


def duration(value: Duration) -> float:
    """Seconds, from a number of them, a timedelta, or ``"90s"``, ``"1h"``."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return _united(value, _SPANS, "span of time") if isinstance(value, str) else float(value)


def instant(value: When) -> str:
    """RFC 3339; a datetime must say its zone."""
    if isinstance(value, str):
        return value
    if value.tzinfo is None:
        raise ValueError("a time needs its zone: datetime.now(timezone.utc), or .astimezone() of a local one")
    return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def when(text: Optional[str]) -> Optional[datetime]:
    """A datetime in UTC; None is never."""
    if text is None or text == "forever":
        return None
    whole = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z", text)
    if not whole:
        return datetime.fromisoformat(text)
    micros = int((whole.group(2) or "0").ljust(6, "0")[:6])
    return datetime.strptime(whole.group(1), "%Y-%m-%dT%H:%M:%S").replace(microsecond=micros, tzinfo=timezone.utc)


def protocol(value: Union[int, str]) -> int:
    """An IP protocol number, or ``"udp"``, ``"tcp"``."""
    return _PROTOCOLS[value.lower()] if isinstance(value, str) else int(value)
