"""What a broker says when it says no: problem+json (RFC 9457) as exceptions."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


class Problem(Exception):
    """A request that was not carried out; nothing has changed unless it says so."""

    def __init__(self, status: int, kind: str, detail: str, refusal: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(detail)
        #: The HTTP status; 0 where no broker answered.
        self.status = status
        #: For programs: ``no_room``, ``policy``, ``not_found``, ...
        self.kind = kind
        #: For people: what, where, how much is free, what to do.
        self.detail = detail
        #: Which resource, when, how much is free; None where the book did not refuse.
        self.refusal = refusal or {}

    @property
    def alternatives(self) -> "List[Any]":
        """Up to three requests near the one that was made, which would be accepted now."""
        from ._documents import Alternative

        return [Alternative.read(one) for one in self.refusal.get("alternatives", [])]


class NoRoom(Problem):
    """There is not enough: ``refusal`` says where and when, ``alternatives`` what would do."""


class NotAllowed(Problem):
    """A rule of the policy, or the certificate, says no."""


class NotFound(Problem):
    """There is no such thing, or it is somebody else's."""


class Malformed(Problem):
    """The request makes no sense."""


class Unavailable(Problem):
    """No broker answers, or an agent is away: trying again later may help."""


def problem(status: int, body: Any) -> Problem:
    """The exception of an answer."""
    if not isinstance(body, dict):
        body = {}
    kind = str(body.get("type", "")).rsplit("/", 1)[-1] or "unknown"
    detail = str(body.get("detail", "the broker answered with status %d" % status))
    by_kind = {"no_room": NoRoom, "not_found": NotFound, "unavailable": Unavailable}
    by_status = {400: Malformed, 401: NotAllowed, 403: NotAllowed, 404: NotFound, 422: Malformed, 503: Unavailable}
    sort = by_kind.get(kind) or by_status.get(status) or Problem
    return sort(status, kind, detail, body.get("refusal"))
