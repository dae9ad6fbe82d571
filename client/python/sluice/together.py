"""Co-reservations: several parts as one reservation, all or none, with strategies for a part that is refused or breaks.

    from sluice import Broker, together as t

    film = Broker().together(
        [
            t.Part("network", t.Hosts("10.0.0.1", "10.0.2.2", forward="6mbit"), strategy=[t.Smaller(0.5)]),
            t.Part("processor", t.Amount("maui/cpu", cores=0.5), t.Amount("glenwood/cpu", cores=0.5)),
        ],
        strategy=[t.Retry(2), t.Another(), t.Later("1h")],
        duration="2h",
        name="film-17",
    )
    for news in film.watch():
        print(news.news, news.text)

A strategy is a list of steps. Each time that a part is refused its strategy takes one step, and the step that is named first
changes fastest: ``[Retry(2), Another(), Later("1h")]`` asks three times for each alternative, and then for all of them again, but
later. ``AsyncBroker.together`` is the same with ``await``.
"""

from ._co_async import AsyncCoReservation
from ._co_sync import CoReservation
from ._plan import Amount, Another, Hosts, Later, News, NotTogether, Part, Refused, Retry, Smaller, Step

__all__ = [
    "Amount",
    "Another",
    "AsyncCoReservation",
    "CoReservation",
    "Hosts",
    "Later",
    "News",
    "NotTogether",
    "Part",
    "Refused",
    "Retry",
    "Smaller",
    "Step",
]
