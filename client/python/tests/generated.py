"""The generated files of the package: python3 generated.py. They are fresh, and the generator follows its sources.

Run by service/broker/tests/broker/python.rs, without a broker.
"""

import inspect
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import typing

sys.dont_write_bytecode = True
PYTHON = pathlib.Path(__file__).resolve().parent.parent
OPENAPI = PYTHON.parent.parent / "docs" / "openapi.json"
#: The constructors that users may have written before the documents were generated.
BEFORE = {
    "Step": "start end amount",
    "Part": "resource unit kind way agent now enforced fault steps binding asked installed measured",
    "EnquiredPart": "resource way kind free granted",
    "Alternative": "sort parts resources",
    "Enquiry": "accepted forward reverse parts reason alternatives",
    "Resource": "resource unit kind capacity free timeline",
    "Event": "id event reservation agent way part at before now text",
    "Hop": "agent interface resource",
    "Path": "hops rate_wire_bps",
    "Paths": "forward reverse away",
    "Webhook": "id url secret reservation failures last_failure",
}
NEEDED = {"Part": 10, "Alternative": 2, "Webhook": 4}


def generate(root, *args):
    """The status of the generator of a tree, and all that it says."""
    script = root / "client" / "python" / "generate.py"
    run = subprocess.run([sys.executable, str(script), *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.returncode, run.stdout


def stale(root, *names):
    """The generator says that these files are stale; after it has run, they are not."""
    status, said = generate(root, "--check")
    assert status == 1 and said.count("is stale") == len(names) and all(name in said for name in names), (status, said)
    status, said = generate(root)
    assert status == 0 and said.count("wrote") == len(names), said
    assert generate(root, "--check") == (0, "")


def fails(root, path, old, new, why):
    """The generator says why it cannot go on after an edit, and writes nothing."""
    text = path.read_text()
    assert old in text, old
    path.write_text(text.replace(old, new))
    for args in ((), ("--check",)):
        status, said = generate(root, *args)
        assert status == 1 and why in said and "Traceback" not in said, said
    path.write_text(text)
    assert generate(root, "--check") == (0, "")


def having(schemas, *names):
    """The properties of the first schema that has all of these, whatever it is called."""
    for schema in schemas.values():
        for one in [schema, *schema.get("allOf", [])]:
            if set(names) <= set(one.get("properties", {})):
                return one["properties"]
    raise AssertionError("no schema has %s" % (names,))


def newer(doc):
    """The OpenAPI text of a newer broker: all schemas have other names, there are more enums and fields."""
    text, names = json.dumps(doc), list(doc["components"]["schemas"])
    for name in names:
        text = text.replace('"#/components/schemas/%s"' % name, '"#/components/schemas/New%s"' % name)
    doc = json.loads(text)
    schemas = doc["components"]["schemas"] = {"New" + name: doc["components"]["schemas"][name] for name in names}
    part = having(schemas, "enforced", "steps")
    schemas["Enforcement"] = {
        "description": "The state of the enforcement.",
        "oneOf": [
            {"type": "string", "enum": ["idle"], "description": "Nothing is to be enforced now."},
            {"type": "string", "const": "in_force", "description": "It is in force."},
        ],
    }
    # Called as a class of the package is.
    schemas["Step"] = {"type": "string", "enum": ["held", "active"], "description": "The state."}
    part["enforced"] = {"$ref": "#/components/schemas/Enforcement"}
    part["kind"] = {"oneOf": [{"type": "null"}, {"type": "string", "enum": ["reserved", "cap"]}], "description": "The kind."}
    part["queue_ms"] = {"type": ["number", "null"], "description": "The delay in its queue, milliseconds."}
    part["from"] = {"type": "string", "description": "Its origin."}
    part["tags"] = {"type": ["array", "null"], "items": {"type": "string"}, "description": "Its tags."}
    part["limit"] = {**part["steps"]["items"], "description": "Its limit."}
    part["free_words"] = {"type": "object", "description": "Free words."}
    part["mode"] = {"type": "string", "enum": ["a", "b"], "description": "Its mode."}
    having(schemas, "handle", "seq", "event")["before"] = {"type": "integer", "description": "Another thing."}
    having(schemas, "hold_until", "parts", "state")["state"] = {"$ref": "#/components/schemas/Step"}
    return json.dumps(doc)


def follows():
    """A copy of the tree follows every change of its sources."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        shutil.copytree(PYTHON, root / "client" / "python", ignore=shutil.ignore_patterns("__pycache__"))
        (root / "docs").mkdir()
        openapi = root / "docs" / "openapi.json"
        shutil.copy(OPENAPI, openapi)
        assert generate(root, "--check") == (0, "")
        source = root / "client" / "python" / "sluice" / "_async.py"
        source.write_text(source.read_text().replace('"""Gives it back."""', '"""Gives it back now."""'))
        stale(root, "_sync.py")
        fails(root, source, "await AsyncStream.pause(1)", "await asyncio.sleep(1)", "asyncio has no waiting twin")
        fails(root, openapi, '"steps"', '"stages"', "Part.steps")
        fails(root, openapi, '"operationId": "enquire"', '"operationId": "ask"', "no operation is called 'enquire'")
        openapi.write_text(newer(json.loads(OPENAPI.read_text())))
        stale(root, "_documents.py", "_shapes.py")
        run = subprocess.run([sys.executable, __file__, "newer"], cwd=root / "client" / "python")
        assert run.returncode == 0


def reads_newer():
    """Run in the newer tree: its package reads documents with words and fields that nobody knows yet."""
    sys.path.insert(0, ".")
    import sluice

    promised(sluice)
    hints = typing.get_type_hints(sluice.Part)
    assert hints["enforced"] == typing.Literal["idle", "in_force"], hints
    assert hints["kind"] == typing.Optional[typing.Literal["reserved", "cap"]], hints
    doc = {
        "resource": "cpu", "unit": "cores", "agent": "a", "now": 1, "enforced": "a new word", "unheard": 1, "from": "here",
        "steps": [{"start": "2026-11-21T14:00:00.25Z", "end": "forever", "amount": 1, "unheard": 2}],
        "binding": {"pid": 42, "unheard": 3},
    }
    part = sluice.Part.read(doc)
    assert (part.enforced, part.queue_ms, part.from_, part.kind, part.binding["pid"]) == ("a new word", None, "here", None, 42), part
    assert (part.tags, part.limit, part.mode, part.free_words) == ([], None, None, None), part
    assert sluice.Event.read("a:1", "share", {"from": 1, "before": 2}).before_ == 2
    assert typing.get_type_hints(sluice.Reservation)["state"] == typing.Literal["held", "active"]
    assert part.steps[0].end is None and part.steps[0].start.microsecond == 250_000, part


def promised(sluice):
    """Programs that were written against the documents that people kept still work."""
    for name, fields in BEFORE.items():
        kind = getattr(sluice, name)
        has = list(inspect.signature(kind).parameters.values())
        assert [one.name for one in has][: len(fields.split())] == fields.split(), (name, has)
        needed = sum(one.default is one.empty for one in has)
        assert needed == NEEDED.get(name, len(fields.split())), (name, needed)


def fits(doc, kind, where):
    """A document has no field that its type lacks, and every field that it needs."""
    if type(None) in getattr(kind, "__args__", ()):
        kind = kind.__args__[0]
    if isinstance(doc, list):
        for one in doc:
            fits(one, kind.__args__[0], where)
    elif isinstance(doc, dict):
        hints = typing.get_type_hints(kind)
        assert set(doc) <= set(hints) and kind.__required_keys__ <= set(doc), (where, set(doc) ^ set(hints))
        for name, value in doc.items():
            fits(value, hints[name], "%s.%s" % (where, name))


def requests():
    """The requests that the package makes are those of the OpenAPI text."""
    from sluice import _requests, _shapes

    rates = {"forward": "1mbit", "reverse": 1, "forward_at_least": 1}
    times = {"start": "2026-11-21T14:00:00Z", "end": "forever", "duration_": "1h"}
    wish = _requests.wish(
        "a", "b", **rates, **times, parts=[{"resource": "cpu", "cores": 0.5, "binding": {"pid": 42}}], earliest=True, volume=1,
        deadline=times["start"], windows=[(times["start"], times["start"])], background={"weight": 2}, rtt_ms=1.0,
        packet_bytes=100, label="x", hold=5,
    )
    assert len(wish) == 10 and len(wish["path"]) == 8, wish
    fits(wish, _shapes.Wish, "Wish")
    change = _requests.change(1, 2, [{"part": 0, "cores": 1}], times["start"], None, "1h", "x")
    assert len(change) == 6, change
    fits(change, _shapes.Change, "Change")
    fits({"flow": _requests.flow(1, 2, "udp")}, _shapes.BindWish, "BindWish")


def twins(sluice):
    """Both halves have the same calls with the same parameters and words."""
    together = (sluice.together.CoReservation, sluice.together.AsyncCoReservation)
    session = (sluice.rsvp.Session, sluice.rsvp.AsyncSession)
    for waits, awaited in ((sluice.Broker, sluice.AsyncBroker), (sluice.Reservation, sluice.AsyncReservation), together, session):
        for name, call in inspect.getmembers(waits, inspect.isfunction):
            other = getattr(awaited, re.sub(r"^__(enter|exit)__$", r"__a\1__", name))
            assert list(inspect.signature(call).parameters) == list(inspect.signature(other).parameters), name
            assert name.startswith("_") or call.__doc__ == other.__doc__, name
        assert not any(map(inspect.iscoroutinefunction, vars(waits).values()))
    clash = set(vars(sluice.Reservation)) & set(sluice.Reservation.__dataclass_fields__)
    assert not clash, "a field of a reservation is called as a call is: %s; rename it in generator/promised.py" % clash


if sys.argv[1:] == ["newer"]:
    reads_newer()
else:
    status, said = generate(PYTHON.parent.parent, "--check")
    assert status == 0, said
    sys.path.insert(0, str(PYTHON))
    import sluice

    promised(sluice)
    requests()
    twins(sluice)
    follows()
    print("the generated files are fresh")
