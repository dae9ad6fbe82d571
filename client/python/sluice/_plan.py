"""Co-reservations: the parts, the strategies, and the order in which requests are tried. No connection is opened here.

A strategy is a row of counters, one for each of its steps: how often it was retried, which alternative is asked for, whether
less will do, whether later will do. Each refusal moves the counter of the first step on; a counter that is at its end goes back
to its beginning and moves the next one on. So the step that is named first changes fastest, and the strategy is exhausted when
the last counter is at its end. ``client/c`` has the same in Rust; ``client/c/tests/strategies.json`` holds both to one table.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from ._errors import Problem
from ._units import Duration, Rate, When, duration, instant, rate

#: The most parts of a co-reservation, alternatives of a part, and steps of a strategy.
MOST_PARTS, MOST_OPTIONS, MOST_STEPS = 16, 16, 8


@dataclass(frozen=True)
class Retry:
    """Asks again for the same, after a pause that grows: ``pause``, ``pause * factor``, ... seconds, at most ``longest``."""

    times: int = 3
    pause: float = 0.5
    factor: float = 2.0
    longest: float = 30.0

    def __post_init__(self) -> None:
        if not (1 <= self.times <= 1000 and self.pause >= 0 and self.factor >= 1 and self.longest >= 0):
            raise ValueError("%r: 1 to 1,000 times, a pause of 0 s or more, a factor of 1 or more" % (self,))


@dataclass(frozen=True)
class Another:
    """Asks for the next alternative of the part, in their order."""


@dataclass(frozen=True)
class Smaller:
    """Takes what is free, down to this share of each amount: ``Smaller(0.5)`` is half or more."""

    to: float

    def __post_init__(self) -> None:
        if not 0 < self.to < 1:
            raise ValueError("%r: a share between 0 and 1" % (self,))


@dataclass(frozen=True)
class Later:
    """Takes the earliest time at which everything fits and that begins within this span: seconds or ``"30min"``."""

    within: Duration

    def __post_init__(self) -> None:
        if not duration(self.within) > 0:
            raise ValueError("%r: a span of time" % (self,))


Step = Union[Retry, Another, Smaller, Later]


@dataclass(frozen=True)
class Hosts:
    """A part: the network between two hosts. A co-reservation has one such part at most."""

    a: str
    b: str
    forward: Rate = 0
    reverse: Rate = 0
    #: The ports, as ``bind`` has them: ``{"from_port": 4000, "to_port": 5004, "protocol": 17}``; None: bound later.
    flow: Optional[Mapping[str, Any]] = None

    def at(self) -> str:
        return "%s > %s" % (self.a, self.b)

    def doc(self, floor: Optional[float]) -> Dict[str, Any]:
        said: Dict[str, Any] = {"from": self.a, "to": self.b}
        for name, amount in (("forward", rate(self.forward)), ("reverse", rate(self.reverse))):
            if amount:
                said[name] = amount
                if floor is not None:
                    said[name + "_at_least"] = math.ceil(amount * floor)
        if self.flow is not None:
            said["flow"] = dict(self.flow)
        return said


@dataclass(frozen=True)
class Amount:
    """A part: so much of one resource of an agent, in exactly one of its units. ``resource`` is ``AGENT/NAME``."""

    resource: str
    rate: Optional[Rate] = None
    cores: Optional[float] = None
    bytes_per_s: Optional[int] = None
    count: Optional[int] = None
    #: Whose packets or processes it is for: ``{"pid": 42}``, ``{"flow": {...}}``, ``{"cgroup": "..."}``.
    binding: Optional[Mapping[str, Any]] = None

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.rate, self.cores, self.bytes_per_s, self.count)) != 1:
            raise ValueError("%s: say one of rate, cores, bytes_per_s and count" % self.resource)

    def at(self) -> str:
        return self.resource

    def doc(self, floor: Optional[float]) -> Dict[str, Any]:
        amounts = {"cores": self.cores, "bytes_per_s": self.bytes_per_s, "count": self.count}
        amounts["rate"] = None if self.rate is None else rate(self.rate)
        (name, amount), = ((name, amount) for name, amount in amounts.items() if amount is not None)
        said: Dict[str, Any] = {"resource": self.resource, name: amount}
        if floor is not None:
            said["at_least"] = amount * floor if name == "cores" else math.ceil(amount * floor)
        if self.binding is not None:
            said["binding"] = dict(self.binding)
        return said


Item = Union[Hosts, Amount]


class Part:
    """One thing that is needed, by a name of yours: what it may be, best first, and what is done when it is refused or breaks.

    An alternative is one item, or several in a list that go together: a server's processor and the network to that server.
    Without a strategy the co-reservation's counts.
    """

    def __init__(self, name: str, *options: Union[Item, Sequence[Item]], strategy: Optional[Sequence[Step]] = None) -> None:
        if not 1 <= len(options) <= MOST_OPTIONS:
            raise ValueError("the part %r: 1 to %d alternatives, not %d" % (name, MOST_OPTIONS, len(options)))
        self.name = name
        self.options = [(one,) if isinstance(one, (Hosts, Amount)) else tuple(one) for one in options]
        if any(not 1 <= len(one) <= MOST_PARTS or sum(isinstance(item, Hosts) for item in one) > 1 for one in self.options):
            raise ValueError("the part %r: an alternative has 1 to %d items, of which one is between hosts" % (name, MOST_PARTS))
        self.strategy = None if strategy is None else tuple(strategy)

    def at(self, choice: int) -> str:
        """The places of an alternative, in words."""
        return " + ".join(item.at() for item in self.options[choice])

    def __repr__(self) -> str:
        return "Part(%r, %s)" % (self.name, ", ".join(map(repr, self.options)))


@dataclass(frozen=True)
class Refused:
    """A request that came to nothing: its number, which part at which place it failed, why, and what was asked for."""

    number: int
    #: The part's name; None: the refusal names none.
    part: Optional[str]
    where: Optional[str]
    why: str
    asked: str

    def __str__(self) -> str:
        return "%d. %s: %s" % (self.number, self.asked, self.why)


@dataclass(frozen=True)
class News:
    """What was done for a co-reservation, or happened to it.

    ``refused``, ``pause``, ``gave_back``, ``made``; while it is watched also ``heard`` (``heard`` is the event), ``broken``,
    ``repaired``, ``lost`` (no strategy is left: it is over), ``over``.
    """

    news: str
    text: str
    #: The part that it is about, by its name; and the place: a resource, an agent, or two hosts.
    part: Optional[str] = None
    where: Optional[str] = None
    heard: Any = None


class NotTogether(Problem):
    """No request was granted: which part, where and why at the end, and all that was tried."""

    def __init__(self, kind: str, why: str, tried: Sequence[Refused], last: Optional[BaseException] = None) -> None:
        self.tried = list(tried)
        end = tried[-1] if tried else None
        #: The part that was refused at the end, by its name, and the place.
        self.part = end.part if end else None
        self.where = end.where if end else None
        words = "%s; tried: %s" % (why, " | ".join(map(str, tried)) or "nothing")
        status, refusal = (last.status, last.refusal) if isinstance(last, Problem) else (0, None)
        super().__init__(status, kind, words, refusal)


@dataclass
class _Counters:
    steps: Tuple[Step, ...]
    #: The numbers of the part's alternatives, in the order in which they are asked for.
    order: List[int]
    at: List[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.at = [0] * len(self.steps)

    def _size(self, step: Step) -> int:
        return step.times + 1 if isinstance(step, Retry) else len(self.order) if isinstance(step, Another) else 2

    def choice(self) -> int:
        return self.order[max((at for step, at in zip(self.steps, self.at) if isinstance(step, Another)), default=0)]

    def floor(self) -> Optional[float]:
        return min((step.to for step, at in zip(self.steps, self.at) if isinstance(step, Smaller) and at), default=None)

    def later(self) -> float:
        on = (duration(step.within) for step, at in zip(self.steps, self.at) if isinstance(step, Later) and at)
        return max(on, default=0.0)

    def advance(self) -> Optional[float]:
        """Moves on; the pause before the next request, seconds; None: the strategy is exhausted, and nothing has moved."""
        for place, step in enumerate(self.steps):
            if self.at[place] + 1 < self._size(step):
                self.at[place] += 1
                self.at[:place] = [0] * place
                if isinstance(step, Retry):
                    return min(step.pause * step.factor ** (self.at[place] - 1), step.longest)
                return 0.0
        return None


class Plan:
    """The next request of a co-reservation, after all refusals so far."""

    def __init__(self, parts: Sequence[Part], strategy: Sequence[Step] = ()) -> None:
        if not 1 <= len(parts) <= MOST_PARTS:
            raise ValueError("1 to %d parts, not %d" % (MOST_PARTS, len(parts)))
        if len({part.name for part in parts}) != len(parts):
            raise ValueError("two parts have the same name")
        if sum(any(isinstance(item, Hosts) for one in part.options for item in one) for part in parts) > 1:
            raise ValueError("one part at most is between two hosts: name the links of others as AGENT/net/INTERFACE")
        self.parts = list(parts)
        self._steps = [tuple(strategy) if part.strategy is None else part.strategy for part in parts]
        for part, steps in zip(parts, self._steps):
            if len(steps) > MOST_STEPS or sum(isinstance(step, Another) for step in steps) > 1:
                raise ValueError("the strategy of %r: at most %d steps, Another once" % (part.name, MOST_STEPS))
        self._counters = [_Counters(steps, list(range(len(part.options)))) for part, steps in zip(parts, self._steps)]

    def choices(self) -> List[int]:
        """The number of the alternative that is asked for, for each part."""
        return [one.choice() for one in self._counters]

    def floors(self) -> List[Optional[float]]:
        """The least share that will do, for each part; None: all of it."""
        return [one.floor() for one in self._counters]

    def later(self) -> float:
        """How much later it may begin, seconds; 0: not at all."""
        return max(one.later() for one in self._counters)

    def _items(self, choices: Sequence[int]) -> List[Tuple[int, Item]]:
        """The items of choices, each with the number of its part."""
        return [(n, item) for n, (part, choice) in enumerate(zip(self.parts, choices)) for item in part.options[choice]]

    def can_be_later(self) -> bool:
        """True if a strategy has the step Later."""
        return any(isinstance(step, Later) for steps in self._steps for step in steps)

    def refused(self, part: Optional[int]) -> Optional[float]:
        """A part was refused; None: it is not known which, and the first that can moves on. The answer is as of ``advance``."""
        numbers = range(len(self.parts)) if part is None else [part]
        pauses = (self._counters[number].advance() for number in numbers)
        return next((pause for pause in pauses if pause is not None), None)

    def broken(self, parts: Set[int], choices: Sequence[int]) -> Optional[float]:
        """What was made of these choices broke at these parts.

        All counters begin anew; each part begins with what it had, and the broken ones count as refused there.
        """
        for number, (part, steps) in enumerate(zip(self.parts, self._steps)):
            order = [choices[number]] + [one for one in range(len(part.options)) if one != choices[number]]
            self._counters[number] = _Counters(steps, order)
        pauses = [self._counters[number].advance() for number in sorted(parts)]
        known = [pause for pause in pauses if pause is not None]
        return max(known) if known and len(known) == len(pauses) else None

    def wish(self, now: datetime, when: "Window", label: str) -> Dict[str, Any]:
        """The document of the next request."""
        doc: Dict[str, Any] = when.doc(now, self.later())
        floors = self.floors()
        for number, item in self._items(self.choices()):
            if isinstance(item, Hosts):
                doc["path"] = item.doc(floors[number])
            else:
                doc.setdefault("parts", []).append(item.doc(floors[number]))
        if label:
            doc["label"] = label
        return doc

    def words(self) -> str:
        """The request in words."""
        said = ["%s at %s" % (part.name, part.at(choice)) for part, choice in zip(self.parts, self.choices())]
        floors = ["%s down to %g" % (part.name, floor) for part, floor in zip(self.parts, self.floors()) if floor is not None]
        later = ["up to %g s later" % self.later()] if self.later() else []
        return ", ".join(said + floors + later)

    def blamed(self, problem: Problem, away: Sequence[str]) -> Tuple[Optional[int], Optional[str]]:
        """The part that a refusal is about, and the place; ``away`` are agents that do not answer."""
        items, refusal = self._items(self.choices()), problem.refusal
        hosts = next((n for n, item in items if isinstance(item, Hosts)), None)
        resource = refusal.get("resource")
        if resource is not None:
            return next((n for n, item in items if isinstance(item, Amount) and _same(item.resource, resource)), hosts), resource
        said = re.match(r"([^\s:]+): ", problem.detail)
        agents = list(away) + ([said.group(1)] if said else [])
        nth = refusal.get("part") or 0
        for agent in agents:
            there = [(n, item.at()) for n, item in items if isinstance(item, Amount) and item.resource.startswith(agent + "/")]
            if there:
                return there[nth if nth < len(there) else 0]
        return (hosts, agents[0]) if agents else (None, None)

    def at_agent(self, agent: str, way: Optional[str], choices: Sequence[int]) -> Set[int]:
        """The parts that an agent has of what was made of these choices: single resources, or one way between hosts."""

        def is_there(item: Item) -> bool:
            return way is not None if isinstance(item, Hosts) else way is None and item.resource.startswith(agent + "/")

        return {n for n, item in self._items(choices) if is_there(item)}

    def could_be(self, resources: Sequence[str], ends: Optional[Tuple[str, str]]) -> bool:
        """True if some choices have all of these single resources and hosts, perhaps with others."""
        items = [item for part in self.parts for option in part.options for item in option]
        hosts = ends is None or any(isinstance(item, Hosts) and ends == (item.a, item.b) for item in items)
        return hosts and all(any(isinstance(item, Amount) and _same(item.resource, one) for item in items) for one in resources)

    def fits(self, resources: Sequence[str], ends: Optional[Tuple[str, str]]) -> Optional[List[int]]:
        """The choices of which a reservation with these single resources and hosts was made; None: it is none of ours."""

        def is_there(item: Item) -> bool:
            return ends == (item.a, item.b) if isinstance(item, Hosts) else any(_same(item.resource, one) for one in resources)

        choices = []
        for part in self.parts:
            found = (n for n, option in enumerate(part.options) if all(map(is_there, option)))
            choice = next(found, None)
            if choice is None:
                return None
            choices.append(choice)
        items = [item for _, item in self._items(choices)]
        singles = sum(isinstance(item, Amount) for item in items)
        return choices if singles == len(resources) and (ends is None) == (singles == len(items)) else None


def _same(asked: str, said: str) -> bool:
    return asked == said or said.endswith("/" + asked)


@dataclass(frozen=True)
class Window:
    """When, as it was asked for."""

    start: Optional[datetime]
    #: None: for ever, unless there is a duration.
    end: Optional[datetime]
    seconds: Optional[float]

    @staticmethod
    def of(start: Optional[When], end: Optional[When], span: Optional[Duration]) -> "Window":
        """``"forever"`` is a duration without an end."""
        begin, over = _moment(start), None if end == "forever" else _moment(end)
        return Window(begin, over, None if span is None or span == "forever" else duration(span))

    def doc(self, now: datetime, later: float) -> Dict[str, Any]:
        """The fields of a request."""
        said: Dict[str, Any] = {} if self.start is None else {"start": instant(self.start)}
        if later:
            begin = self.start or now
            seconds = self.seconds if self.seconds is not None else ((self.end or begin) - begin).total_seconds()
            over = begin + timedelta(seconds=later + seconds)
            return {**said, "earliest": True, "duration_s": seconds, "end": instant(over)}
        if self.seconds is not None:
            return {**said, "duration_s": self.seconds}
        return {**said, "end": "forever" if self.end is None else instant(self.end)}


def _moment(value: Optional[When]) -> Optional[datetime]:
    if value is None:
        return None
    return datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else value.astimezone(timezone.utc)
