"""Writes the waiting half, ``_sync.py`` from ``_async.py`` and so on: the same text without ``async`` and ``await``."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import Dict, List, Set, Tuple

HEAD = '''"""%s

Generated from %s by client/python/generate.py: change that file, not this one.
"""'''
#: The awaited files: what each becomes, and the first line of that.
TWINS = {
    "_async.py": ("_sync.py", "A broker, call by call."),
    "_co_async.py": ("_co_sync.py", "Co-reservations, call by call."),
    "_rsvp_async.py": ("_rsvp_sync.py", "Sessions of RSVP, call by call."),
}

NAMES = {
    "AsyncBroker": "Broker",
    "AsyncReservation": "Reservation",
    "AsyncStream": "Stream",
    "AsyncCall": "Call",
    "AsyncSession": "Session",
    "_rsvp_async": "_rsvp_sync",
    "AsyncCoReservation": "CoReservation",
    "_async": "_sync",
    "_co_async": "_co_sync",
    "AsyncIterator": "Iterator",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}
#: Words of docstrings that are not so where calls wait.
WORDS = {" whose calls are awaited": ""}

Place = Tuple[int, int]
Edit = Tuple[Place, Place, str]


class Untranslated(Exception):
    """The source has something that has no waiting twin."""


def waiting(source: str, path: str, title: str) -> str:
    """The twin of a source whose calls are awaited; ``title`` is its first line."""
    tree = ast.parse(source, path)
    edits = _parentheses(tree, source)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for token, behind in zip(tokens, tokens[1:]):
        if token.type == tokenize.NAME and token.string in ("async", "await"):
            edits.append((token.start, behind.start, ""))
        elif token.type == tokenize.NAME and token.string in NAMES:
            edits.append((token.start, token.end, NAMES[token.string]))
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            edits.append((token.start, token.end, _renamed(token.string)))
    first = tree.body[0]
    assert first.end_lineno is not None
    lines = _edited(source, edits).splitlines()
    name = path.rsplit("/", 1)[-1]
    twin = "\n".join([HEAD % (title, name)] + [_sorted(line) for line in lines[first.end_lineno :]]) + "\n"
    _checked(twin, path)
    return twin


def _parentheses(tree: ast.AST, source: str) -> List[Edit]:
    """The parentheses around an ``await`` whose value is used further: the twin needs none."""
    lines = source.splitlines()
    edits: List[Edit] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Await) or node.lineno != node.end_lineno:
            continue
        # Columns of ast count bytes.
        line = lines[node.lineno - 1].encode()
        first, last = node.col_offset, node.end_col_offset or 0
        if line[first - 1 : first] == b"(" and line[last : last + 1] == b")" and not re.search(rb"[\w\])]\($", line[:first]):
            start, end = len(line[: first - 1].decode()), len(line[:last].decode())
            edits.append(((node.lineno, start), (node.lineno, start + 1), ""))
            edits.append(((node.lineno, end), (node.lineno, end + 1), ""))
    return edits


def _renamed(text: str) -> str:
    for words, instead in WORDS.items():
        text = text.replace(words, instead)
    return re.sub(r"\w+", lambda found: NAMES.get(found.group(), found.group()), text)


def _edited(source: str, edits: List[Edit]) -> str:
    lines = source.splitlines(keepends=True)
    for (row, start), (end_row, end), text in sorted(edits, reverse=True):
        lines[row - 1 : end_row] = [lines[row - 1][:start] + text + lines[end_row - 1][end:]]
    return "".join(lines)


def _sorted(line: str) -> str:
    """An import with its names in order: constants, classes, functions."""
    found = re.fullmatch(r"(from \S+ import )([\w, ]+)", line)
    if not found:
        return line
    names = [name.strip() for name in found.group(2).split(",")]
    return found.group(1) + ", ".join(sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name)))


def _checked(twin: str, path: str) -> None:
    """Nothing that waits in another way may be left."""
    left: Dict[str, Set[int]] = {}
    for token in tokenize.generate_tokens(io.StringIO(twin).readline):
        if token.type != tokenize.COMMENT and re.search(r"\b(async|await|asyncio|aclose|Async\w+|__a\w+__)\b", token.string):
            if "Generated from " not in token.string:
                left.setdefault(token.string, set()).add(token.start[0])
    if left:
        raise Untranslated("%s: %s has no waiting twin: see generator/twin.py" % (path, ", ".join(sorted(left))))
    compile(twin, "_sync.py", "exec", dont_inherit=True)
