"""The order of requests, by the table that both halves of the library share: python3 strategies.py client/c/tests/strategies.json"""

import json
import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from sluice import together as t  # noqa: E402
from sluice._plan import Plan  # noqa: E402

TABLE = ROOT.parent / "c" / "tests" / "strategies.json"


def step(said):
    name, *numbers = said.split()
    kinds = {"retry": t.Retry, "another": t.Another, "smaller": t.Smaller, "later": t.Later}
    numbers = [float(number) for number in numbers]
    return kinds[name](int(numbers[0]), *numbers[1:]) if name == "retry" else kinds[name](*numbers)


def plan(parts):
    def part(number, one):
        options = (t.Amount("a%d/licence/%d" % (option, number), count=1) for option in range(one["alternatives"]))
        return t.Part("part-%d" % number, *options, strategy=[step(said) for said in one["strategy"]])

    return Plan([part(number, one) for number, one in enumerate(parts)])


def told(plan, what):
    """What the plan says about an event: the pause, or that nothing is left."""
    if what == "begin":
        return 0.0
    name, which, *more = what.split()
    if name == "refused":
        return plan.refused(None if which == "?" else int(which))
    return plan.broken({int(one) for one in which.split(",")}, [int(one) for one in more[1].split(",")])


def said(plan, pause):
    if pause is None:
        return "nothing is left"
    floors = ",".join("%g" % (floor or 1) for floor in plan.floors())
    return "at %s share %s later %g pause %g" % (",".join(map(str, plan.choices())), floors, plan.later(), pause)


cases = json.loads(TABLE.read_text())
for case in cases:
    one = plan(case["parts"])
    for what, expected in case["rows"]:
        found = said(one, told(one, what))
        assert found == expected, (case["what"], what, found, expected)
print("the table of strategies holds: %d cases" % len(cases))
