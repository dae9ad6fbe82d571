"""The documents of requests, made of what people write; their types are generated."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union, cast

from . import _shapes as s
from ._units import Duration, Rate, When, duration, instant, protocol, rate


def flow(from_port: Optional[int], to_port: Optional[int], of: Union[int, str, None]) -> s.Ports:
    """The document of a filter of packets between two hosts; what is left out may be anything."""
    said = {"from_port": from_port, "to_port": to_port, "protocol": None if of is None else protocol(of)}
    return cast("s.Ports", {name: value for name, value in said.items() if value is not None})


def limited(
    end: Optional[When], duration_: Optional[Duration], more: Mapping[str, Any]
) -> Tuple[Optional[When], Optional[Duration]]:
    """The end or the duration of a reservation; it must have one, or be ``"forever"``."""
    if end is None and duration_ is None and not more.get("deadline") and not more.get("windows"):
        raise ValueError("for how long? duration=3600, duration=\"1h\", end=..., or duration=\"forever\"")
    return ("forever", None) if duration_ == "forever" else (end, duration_)


def wish(
    a: Optional[str],
    b: Optional[str],
    *,
    forward: Optional[Rate],
    reverse: Optional[Rate],
    forward_at_least: Optional[Rate] = None,
    parts: Optional[Sequence[Mapping[str, Any]]],
    start: Optional[When],
    end: Optional[When],
    duration_: Optional[Duration],
    earliest: bool = False,
    volume: Optional[int] = None,
    deadline: Optional[When] = None,
    windows: Optional[Sequence[Sequence[When]]] = None,
    background: Union[bool, Mapping[str, Any], None] = None,
    rtt_ms: Optional[float] = None,
    packet_bytes: Optional[int] = None,
    label: str = "",
    hold: Optional[Duration] = None,
) -> s.Wish:
    """The document of a reservation or enquiry."""
    doc: Dict[str, Any] = {}
    if a is not None or b is not None:
        path: Dict[str, Any] = {"from": a, "to": b}
        for name, value in (("forward", forward), ("reverse", reverse), ("forward_at_least", forward_at_least)):
            if value is not None:
                path[name] = rate(value)
        if background:
            path["background"] = {} if background is True else dict(background)
        path.update({n: v for n, v in (("rtt_ms", rtt_ms), ("packet_bytes", packet_bytes)) if v is not None})
        doc["path"] = path
    if parts:
        doc["parts"] = [dict(part) for part in parts]
    if volume is not None:
        if deadline is None:
            raise ValueError("a volume needs its deadline")
        doc["volume"] = {"bytes": volume, "deadline": instant(deadline)}
    if windows:
        doc["windows"] = [{"start": instant(begin), "end": instant(over)} for begin, over in windows]
    said = {
        "start": start and instant(start),
        "end": end and instant(end),
        "duration_s": None if duration_ is None else duration(duration_),
        "hold_s": None if hold is None else duration(hold),
        "earliest": earliest or None,
        "label": label or None,
    }
    doc.update({name: value for name, value in said.items() if value is not None})
    return cast("s.Wish", doc)


def change(
    forward: Optional[Rate],
    reverse: Optional[Rate],
    amounts: Optional[Sequence[Mapping[str, Any]]],
    start: Optional[When],
    end: Optional[When],
    duration_: Optional[Duration],
    label: Optional[str],
) -> s.Change:
    """The document of a change; a duration counts from now."""
    if duration_ is not None:
        end = datetime.now(timezone.utc) + timedelta(seconds=duration(duration_))
    said = {
        "forward": None if forward is None else rate(forward),
        "reverse": None if reverse is None else rate(reverse),
        "amounts": [dict(one) for one in amounts] if amounts else None,
        "start": start and instant(start),
        "end": end and instant(end),
        "label": label,
    }
    return cast("s.Change", {name: value for name, value in said.items() if value is not None})
