"""Co-reservations, call by call.

Generated from _co_async.py by client/python/generate.py: change that file, not this one.
"""

from __future__ import annotations

import os
import re
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ._errors import NoRoom, NotAllowed, NotFound, Problem, Unavailable
from ._plan import News, NotTogether, Part, Plan, Refused, Step, Window
from ._streams import T, Call, Stream
from ._units import Duration, When, duration
from ._wire import target

if TYPE_CHECKING:
    from ._sync import Broker, Reservation

#: States of a reservation that is whole, or will be.
WHOLE = ("held", "committing", "booked", "active", "suspended")
#: States in which a reservation is no more.
OVER = ("ended", "cancelled", "expired")
#: Refusals of which another part, place, amount or time may help.
REFUSALS = (409, 403, 422)
#: The pause before the same request is sent again, where a broker or an agent is away, seconds: the first, and the longest.
AWAY = (0.25, 5.0)


class CoReservation:
    """Several parts as one reservation, all or none, made and repaired by strategies; ``Broker.together`` makes it."""

    def __init__(
        self,
        broker: "Broker",
        plan: Plan,
        window: Window,
        name: str,
        limits: Tuple[int, float],
        told: Optional[Callable[[News], object]],
    ) -> None:
        self._broker, self._plan, self._window, self._name = broker, plan, window, name
        self._attempts, self._patience = limits
        self._told = told
        self._run, self._sent = os.urandom(12).hex(), 0
        self._choices: List[int] = []
        self._tried: List[Refused] = []
        self._said: List[News] = []
        self._owner: Optional[str] = None
        self._reservation: Optional["Reservation"] = None
        self._until = 0.0

    @property
    def reservation(self) -> "Reservation":
        """The reservation as it is now; a repair puts another in its place."""
        assert self._reservation is not None
        return self._reservation

    @property
    def chosen(self) -> Dict[str, str]:
        """Where each part is: a resource, or two hosts."""
        return {part.name: part.at(choice) for part, choice in zip(self._plan.parts, self._choices)}

    @property
    def tried(self) -> List[Refused]:
        """The requests that were refused, of the last time that it was made or repaired."""
        return list(self._tried)

    def __repr__(self) -> str:
        return "<CoReservation %s %s>" % (self.reservation.id, self.chosen)

    def make(self) -> "CoReservation":
        """Finds what a program of the same name has made, or makes it. ``together`` of a broker has done this."""
        self._begin()
        if self._name and self._found():
            return self
        self._make(None)
        return self

    def cancel(self) -> "CoReservation":
        """Gives all of it back."""
        self.reservation.cancel()
        return self

    def watch(self) -> Iterator[News]:
        """What happens to it, until it is over. What breaks is repaired; raises NotTogether where no strategy is left."""
        place: Optional[str] = None
        while True:
            kept = self.reservation
            try:
                for event in kept.events(after=place):
                    place = event.id or place
                    self._said.clear()
                    yield self._tell(News("heard", event.text or event.event, where=event.agent or None, heard=event))
                    if event.event == "lost":
                        kept.refresh()
                    if kept.state == "broken":
                        break
            except Unavailable as problem:
                yield self._tell(News("heard", str(problem)))
                Stream.pause(AWAY[0])
                continue
            if kept.state != "broken":
                yield self._tell(News("over", "%s is %s" % (kept.id, kept.state)))
                return
            lost = self._repair()
            for news in self._said:
                yield news
            if lost is not None:
                raise lost
            place = None

    def __enter__(self) -> "CoReservation":
        return self

    def __exit__(self, *_: object) -> None:
        if self.reservation.refresh().state not in OVER:
            self.cancel()

    def _tell(self, news: News) -> News:
        self._said.append(news)
        if self._told is not None:
            self._told(news)
        return news

    def _begin(self) -> None:
        self._tried, self._said, self._until = [], [], time.monotonic() + self._patience

    def _found(self) -> bool:
        """Takes over what the caller has by this name; several: the oldest that is whole, and the others are given back."""
        if self._owner is None:
            self._owner = self._patient(self._who)
        while True:
            known = self._patient(lambda: self._broker.reservations(label=self._name, owner=self._owner))
            if all(one.state not in ("preparing", "aborting") for one in known):
                break
            self._pause(AWAY[0], "what was begun by this name has not come to its end")
        is_ours = [self._plan.fits(*_parts(one)) if one.state in WHOLE else self._plan.could_be(*_parts(one)) for one in known]
        strange = [one.id for one, ours in zip(known, is_ours) if ours is None or ours is False]
        if strange:
            what = "%s is called %r as well, and has other parts: take another name" % (strange[0], self._name)
            raise Problem(0, "name_used", what)
        known.sort(key=lambda one: (one.state not in WHOLE, str(one.created), one.id))
        choices = self._plan.fits(*_parts(known[0])) if known and known[0].state in WHOLE else None
        for one in known if choices is None else known[1:]:
            self._give_back(one)
        if choices is None:
            return False
        before, self._reservation, self._choices = self._reservation, known[0], choices
        if before is None or before.id != known[0].id:
            self._tell(News("made", "%s is there: %s" % (known[0].id, self.chosen)))
        return True

    def _who(self) -> str:
        """The caller's name, as an agent knows it."""
        resources = self._broker.call("GET", "/v1/resources")["resources"]
        agent = resources[0]["resource"].split("/")[0] if resources else ""
        asked = {"signal": "receive", "agent": agent, "dst": "127.0.0.1", "rate": "1"}
        return str(self._broker.call("GET", target("/v1/may", asked))["who"])

    def _make(self, before: Optional["Reservation"]) -> None:
        """Asks until all parts are granted. ``before`` is what broke: it is given back as soon as it is in the way."""
        number = 1
        while True:
            choices, asked = self._plan.choices(), self._plan.words()
            try:
                made = self._ask()
                break
            except Problem as problem:
                if problem.status not in REFUSALS and not isinstance(problem, Unavailable):
                    raise
                away = self._away(problem)
                if before is not None and _is_in_the_way(problem, before):
                    self._give_back(before)
                    before = None
                    continue
                blamed, where = self._plan.blamed(problem, away)
                part = None if blamed is None else self._plan.parts[blamed].name
                self._tried.append(Refused(number, part, where, str(problem), asked))
                self._tell(News("refused", str(self._tried[-1]), part, where))
                pause = self._plan.refused(blamed)
                if pause is None or number >= self._attempts:
                    why = "no strategy is left" if pause is None else "%d requests were refused" % number
                    raise self._failed("refused", "%s for %s: %s" % (why, part or "any part", problem), problem) from None
                self._pause(pause, str(problem))
                number += 1
        self._reservation, self._choices = made, choices
        self._tell(News("made", "%s: %s" % (made.id, self.chosen)))
        if before is not None:
            self._give_back(before)
        if self._name and not self._found():
            raise Problem(0, "gone", "%s was made, and is gone again" % made.id)

    def _ask(self) -> "Reservation":
        """Sends one request; the same again, by the same key, while nobody knows what became of it."""
        from ._sync import Reservation

        doc = self._plan.wish(datetime.now(timezone.utc), self._window, self._name)
        self._sent += 1
        key = "%s.%d" % (self._run, self._sent)
        made = self._patient(lambda: self._broker.call("POST", "/v1/reservations", doc, key))
        return Reservation(self._broker, made)

    def _patient(self, call: Call[T]) -> T:
        """Makes a call; again, while the broker does not answer or has too much to do, and there is time."""
        pause = AWAY[0]
        while True:
            try:
                return call()
            except Problem as problem:
                # An agent that is away is a refusal of the parts there; a broker that is away is waited for.
                busy = problem.status == 429 or isinstance(problem, Unavailable)
                if not busy or self._away(problem):
                    raise
                self._pause(pause, str(problem), problem)
                pause = min(2 * pause, AWAY[1])

    def _away(self, problem: Problem) -> List[str]:
        """The agents that do not answer, and because of which this was refused; none where their broker does not answer."""
        if problem.status != 503:
            return []
        try:
            away = self._broker.call("GET", "/v1/resources").get("away", [])
        except Problem:
            return []
        words = re.findall(r"[\w.-]+", problem.detail)
        return [agent for agent in away if agent in words]

    def _pause(self, seconds: float, why: str, last: Optional[Problem] = None) -> None:
        if time.monotonic() + seconds > self._until:
            raise self._failed("late", "not granted within %g s: %s" % (self._patience, why), last)
        if seconds > 0:
            self._tell(News("pause", "%g s" % seconds))
            Stream.pause(seconds)

    def _failed(self, kind: str, why: str, last: Optional[Problem]) -> NotTogether:
        return NotTogether(kind, why, self._tried, last)

    def _give_back(self, one: "Reservation") -> None:
        try:
            self._patient(one.cancel)
        except (NotFound, NoRoom, NotAllowed) as problem:
            # It is over already, or is being given back.
            if problem.kind not in ("not_found", "wrong_state"):
                raise
        self._tell(News("gave_back", "%s was given back" % one.id))

    def _repair(self) -> Optional[Problem]:
        """Puts a new whole reservation in the place of the broken one; or why that cannot be."""
        kept = self.reservation
        self._begin()
        broken, where = self._broken(kept)
        names, places = ", ".join(self._plan.parts[number].name for number in sorted(broken)), ", ".join(where)
        self._tell(News("broken", "%s broke at %s" % (kept.id, places), names or None, places))
        self._window = _left(kept)
        pause = self._plan.broken(broken, self._choices)
        try:
            if pause is None:
                what = "%s broke at %s, and no strategy is left for %s" % (kept.id, places, names or "it")
                raise NotTogether("broken", what, [Refused(0, names or None, places, "it broke", self._plan.words())])
            self._pause(pause, "it broke")
            self._make(kept)
        except Problem as problem:
            try:
                self._give_back(kept)
            except Problem as away:
                self._tell(News("heard", "what is left of %s was not given back: %s" % (kept.id, away)))
            self._tell(News("lost", str(problem), names or None, places))
            return problem
        words = "%s in the place of %s: %s" % (self.reservation.id, kept.id, self.chosen)
        self._tell(News("repaired", words, names or None, places))
        return None

    def _broken(self, kept: "Reservation") -> Tuple[Set[int], List[str]]:
        """The parts that are over or missing, and the agents."""
        broken: Set[int] = set()
        agents = set(kept.missing)
        for agent in kept.missing:
            for way in (None, "forward"):
                broken |= self._plan.at_agent(agent, way, self._choices)
        try:
            for event in kept.history():
                if event.event in OVER:
                    agents.add(event.agent)
                    broken |= self._plan.at_agent(event.agent, event.way, self._choices)
        except Problem:
            pass
        return broken, sorted(agents)


def _parts(one: "Reservation") -> Tuple[List[str], Optional[Tuple[str, str]]]:
    """The single resources of a reservation, and its two hosts."""
    return [part.resource for part in one.parts if part.way is None], (one.path["from"], one.path["to"]) if one.path else None


def _left(kept: "Reservation") -> Window:
    """What is left of the time of a reservation."""
    steps = [step for part in kept.parts for step in part.steps]
    starts = [step.start for step in steps if step.start is not None]
    begin = min(starts, default=None)
    ends = [step.end for step in steps]
    over = None if None in ends or not ends else max(end for end in ends if end is not None)
    return Window(begin if begin is not None and begin > datetime.now(timezone.utc) else None, over, None)


def _is_in_the_way(problem: Problem, before: "Reservation") -> bool:
    """True if what is left of a broken reservation may be what keeps the new one out: its room, or its flows and processes."""
    ours = any(part.resource == problem.refusal.get("resource") for part in before.parts)
    return problem.refusal.get("reason") == "taken" or (isinstance(problem, NoRoom) and ours)


def together(
    broker: "Broker",
    parts: Sequence[Part],
    strategy: Sequence[Step],
    when: Tuple[Optional[When], Optional[When], Optional[Duration]],
    name: str,
    limits: Tuple[int, Duration],
    told: Optional[Callable[[News], object]],
) -> CoReservation:
    """Makes a co-reservation: see ``Broker.together``."""
    start, end, span = when
    if end is None and span is None:
        raise ValueError("for how long? duration=3600, duration=\"1h\", end=..., or duration=\"forever\"")
    plan, window = Plan(parts, strategy), Window.of(start, end, span)
    if plan.can_be_later() and window.seconds is None and window.end is None:
        raise ValueError("what has no end cannot be later: leave Later out, or say a duration")
    attempts, patience = limits
    if not 1 <= attempts <= 1000:
        raise ValueError("1 to 1,000 requests, not %d" % attempts)
    return CoReservation(broker, plan, window, name, (attempts, duration(patience)), told).make()
