"""Writes ``sluice/_documents.py`` and ``sluice/_shapes.py`` from the OpenAPI text."""

from __future__ import annotations

import keyword
import re
import textwrap
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Set

from .promised import DICTIONARIES, PUBLIC, Public
from .schema import Missing, OpenApi, Schema

WIDTH = 110
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
EMPTY = {"str": '""', "int": "0", "float": "0.0", "bool": "False"}
#: Names of the generated file that no type may have.
TAKEN = {"Any", "Dict", "List", "Literal", "Mapping", "Optional", "TypedDict", "dataclass", "datetime", "field", "when"}

HEAD = '''"""The broker's documents as Python's classes.

Generated from docs/openapi.json by client/python/generate.py: change those, not this file. A newer broker may send more
fields, which are left out here, and other words than a ``Literal`` lists, which are kept as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, List, Mapping, Optional

%s
from ._units import when
'''
SHAPES = '''"""The documents that stay dictionaries: requests, and parts of answers; and the words that a field may have.

Generated from docs/openapi.json by client/python/generate.py: change those, not this file.
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict
'''


def prose(text: str, names: Mapping[str, str]) -> str:
    """A description of the OpenAPI text in the words of Python."""
    text = " ".join(text.split())
    text = re.sub(r"\[`(\w+)`\]", lambda found: ":class:`%s`" % names[found[1]] if found[1] in names else "`%s`" % found[1], text)
    text = re.sub(r"(?<![:`])`([^`]+)`", r"``\1``", text)
    text = re.sub(r"\b([Nn])ull\b", "None", text)
    return text.replace("\\", "\\\\").replace('"""', "'''")


def comment(text: str, indent: str, mark: str = "#: ") -> List[str]:
    """The lines of a comment about what follows."""
    return textwrap.wrap(text, WIDTH, initial_indent=indent + mark, subsequent_indent=indent + mark, break_on_hyphens=False)


def docstring(text: str, indent: str) -> List[str]:
    """The lines of a docstring; a single one that ends in a quote gets a blank behind it."""
    one = '%s"""%s%s"""' % (indent, text, " " if text.endswith('"') else "")
    if len(one) <= WIDTH:
        return [one]
    lines = textwrap.wrap(text, WIDTH, initial_indent=indent + '"""', subsequent_indent=indent, break_on_hyphens=False)
    return lines + [indent + '"""']


def title(name: str) -> str:
    """The name of a property as part of a type's name."""
    return "".join(word.capitalize() for word in name.split("_"))


@dataclass
class Field:
    """A field of a dataclass."""

    name: str
    type: str
    #: The expression that reads it from ``doc``.
    source: str
    doc: str
    #: None: the constructor needs it.
    default: Optional[str]


class Documents:
    """All types of the file, each written once."""

    def __init__(self, api: OpenApi) -> None:
        self.api = api
        #: The Python names of components, and of schemas that stand where they are used.
        self.names: Dict[str, str] = {}
        self.classes: Set[str] = set()
        #: The types that stay dictionaries, and the enums: written as they are met.
        self.blocks: List[List[str]] = []
        self.written: Set[str] = set()
        for public in PUBLIC:
            self._name(api.at(public.where), public.where, public.name)
            self.classes.add(public.name)
        for where, name in DICTIONARIES.items():
            found = api.at(where)
            if self._key(found, where) not in self.names:
                self._name(found, where, name)

    def texts(self) -> Dict[str, str]:
        """The content of both files."""
        classes = ["\n".join(self._class(public)) for public in PUBLIC]
        for where in DICTIONARIES:
            if where.endswith(".request"):
                self._raw(self.api.at(where), where)
        used = sorted(name for name in self.written if re.search(r"\b%s\b" % name, "\n".join(classes)))
        line = "from ._shapes import %s" % ", ".join(used)
        if len(line) > WIDTH:
            line = "\n".join(["from ._shapes import ("] + ["    %s," % name for name in used] + [")"])
        shapes = ["\n".join(block) for block in self.blocks]
        return {
            "_documents.py": "\n\n".join([HEAD % line] + [one + "\n" for one in classes]),
            "_shapes.py": "\n\n".join([SHAPES] + [one + "\n" for one in shapes]),
        }

    @staticmethod
    def _key(schema: Schema, where: str) -> str:
        return schema.component or where

    def _name(self, schema: Schema, where: str, wanted: str) -> str:
        """The Python name of an object or enum: the one that it has, or the wanted one, if nothing else is called so."""
        key = self._key(schema, where)
        if key not in self.names:
            for name in (wanted, schema.component or "", wanted + ("Word" if schema.kind == "enum" else "Document")):
                if name and name not in TAKEN and name not in self.names.values() and not keyword.iskeyword(name):
                    self.names[key] = name
                    break
            else:
                raise Missing("%s: no name is left for it" % where)
        return self.names[key]

    def _own_name(self, schema: Schema, where: str, parent: str, prop: str) -> str:
        bare = re.sub(r"(Doc|Row)$", "", schema.component or "") or parent + title(prop)
        return self._name(schema, where, bare)

    def _type(self, schema: Schema, where: str, parent: str, prop: str, raw: bool) -> str:
        """The type without its Optional; ``raw``: as JSON has it."""
        if schema.kind in SCALARS:
            return SCALARS[schema.kind]
        if schema.kind == "instant":
            return "str" if raw else "datetime"
        if schema.kind == "array":
            inner = self.api.resolve(schema.items)
            return "List[%s]" % self._optional(self._type(inner, where, parent, prop, raw), inner.nullable)
        if schema.kind == "enum":
            return self._enum(schema, self._own_name(schema, where, parent, prop))
        if schema.kind == "object":
            name = self._own_name(schema, where, parent, prop)
            if name in self.classes:
                return "Dict[str, Any]" if raw else name
            return self._raw(schema, where)
        return "Dict[str, Any]" if schema.kind == "map" else "Any"

    @staticmethod
    def _optional(kind: str, nullable: bool) -> str:
        return "Optional[%s]" % kind if nullable and kind != "Any" else kind

    def _enum(self, schema: Schema, name: str) -> str:
        if name not in self.written:
            self.written.add(name)
            lines = comment(prose(schema.own_doc, self.names), "")
            for value, doc in schema.values:
                if doc and doc != schema.own_doc:
                    lines += comment("``%s``: %s" % (value, prose(doc, self.names)), "")
            whole = "%s = Literal[%s]" % (name, ", ".join(_quoted(value) for value, _ in schema.values))
            if len(whole) > WIDTH:
                inner = ["    %s," % _quoted(value) for value, _ in schema.values]
                whole = "\n".join(["%s = Literal[" % name, *inner, "]"])
            self.blocks.append(lines + [whole])
        return name

    def _raw(self, schema: Schema, where: str) -> str:
        """The type of a document that stays a dictionary."""
        name = self._own_name(schema, where, "", "")
        if name in self.written:
            return name
        self.written.add(name)
        rows: Dict[bool, List[List[str]]] = {True: [], False: []}
        named: Dict[bool, bool] = {True: False, False: False}
        for prop, raw in schema.properties.items():
            inner = self.api.resolve(raw)
            needed = prop in schema.required
            kind = self._optional(self._type(inner, where + "/" + prop, name, prop, True), inner.nullable)
            rows[needed].append([prop, kind, prose(inner.doc, self.names)])
            named[needed] = named[needed] or keyword.iskeyword(prop)
        doc = prose(schema.own_doc, self.names) + (" It has exactly one of these fields." if schema.variants else "")
        self.blocks += _typed_dict(name, doc, rows, named)
        return name

    def _read(self, schema: Schema, expression: str, where: str, parent: str, prop: str, deep: int = 0) -> str:
        """The expression that makes the Python value of a document's."""
        if schema.kind == "instant":
            return "when(%s)" % expression
        if schema.kind == "array":
            one = ("one", "row", "item")[min(deep, 2)]
            inner = self._read(self.api.resolve(schema.items), one, where, parent, prop, deep + 1)
            return "list(%s)" % expression if inner == one else "[%s for %s in %s]" % (inner, one, expression)
        if schema.kind == "object" and self.names.get(self._key(schema, where)) in self.classes:
            return "%s.read(%s)" % (self.names[self._key(schema, where)], expression)
        return expression

    def _fields(self, public: Public) -> List[Field]:
        """The fields of a dataclass: those that are promised, then the others of the schema."""
        schema = self.api.at(public.where)
        fields: List[Field] = []
        late, seen = False, set()
        for word in public.fields.split():
            if word == "*":
                late = True
                continue
            name, _, source = word.partition("=")
            lenient, name = name.endswith("?"), name.rstrip("?")
            fields.append(self._field(public, schema, name, source or name, lenient, late))
            seen.add(name if source == "@" else source or name)
        for prop in sorted(set(schema.properties) - seen):
            name = prop + "_" if keyword.iskeyword(prop) or any(one.name == prop for one in fields) else prop
            fields.append(self._field(public, schema, name, prop, True, not public.mutable))
        return fields

    def _field(self, public: Public, schema: Schema, name: str, source: str, lenient: bool, late: bool) -> Field:
        """One field; ``lenient``: the document may lack it whatever the schema says."""
        if source == "@":
            known = self.api.resolve(schema.properties.get(name, {}))
            words = " ".join("``%s``," % value for value, _ in known.values).rstrip(",")
            doc = " ".join(filter(None, (prose(known.doc, self.names), words and words + ".")))
            return Field(name, "str", {"id": "ident", "event": "kind"}[name], self._words(public, name, doc), None)
        holder, where, of = schema, public.where, "doc"
        *outer, prop = source.split(".")
        for one in outer:
            where, of = where + "/" + one, one
            holder = self.api.at(where)
        where = where + "/" + prop
        if prop not in holder.properties:
            raise Missing("%s.%s: there is no %s; say in generator/promised.py where it is now" % (public.name, name, where))
        inner = self.api.resolve(holder.properties[prop])
        bare = self._type(inner, where, public.name, prop, False)
        needed = prop in holder.required and not outer and not lenient
        empty = self._empty(inner, bare, bool(outer))
        optional = inner.kind == "instant" or (inner.nullable and empty == "None")
        if needed:
            get = '%s["%s"]' % (of, prop)
        elif empty == "None" and lenient and not late and bare in EMPTY:
            empty = EMPTY[bare]
            optional, get = False, '%s.get("%s") or %s' % (of, prop, empty)
        elif empty == "None":
            optional, get = True, '%s.get("%s")' % (of, prop)
        else:
            get = ('(%s.get("%s") or %s)' if inner.nullable else '%s.get("%s", %s)') % (of, prop, empty)
        expression = self._read(inner, get, where, public.name, prop)
        if optional and expression == "%s.read(%s)" % (bare, get):
            expression = "None if %s.get(\"%s\") is None else %s" % (of, prop, expression)
        kind = self._optional(bare, optional or (late and empty == "None"))
        default = {"[]": "field(default_factory=list)"}.get(empty, empty) if late else None
        return Field(name, kind, expression, self._words(public, name, prose(inner.doc, self.names)), default)

    @staticmethod
    def _empty(schema: Schema, bare: str, outer: bool) -> str:
        """The value of a field that the document lacks."""
        if schema.kind == "array":
            return "[]"
        return "None" if outer or schema.nullable else EMPTY.get(bare, "None")

    @staticmethod
    def _words(public: Public, name: str, doc: str) -> str:
        return " ".join(filter(None, (public.docs.get(name, doc), public.docs.get(name + "+", ""))))

    def _class(self, public: Public) -> List[str]:
        schema = self.api.at(public.where)
        fields = self._fields(public)
        lines = ["@dataclass(%s)" % ("init=False" if public.mutable else "frozen=True"), "class %s:" % public.name]
        lines += docstring(prose(schema.own_doc, self.names), "    ") + [""]
        for one in fields:
            lines += comment(one.doc, "    ")
            lines.append("    %s: %s" % (one.name, one.type) + ("" if one.default is None else " = %s" % one.default))
        lines.append("")
        outer = sorted({word.split("=")[1].split(".")[0] for word in public.fields.split() if "." in word})
        aside = ['        %s = doc.get("%s") or {}' % (one, one) for one in outer]
        if public.mutable:
            lines.append("    def take(self, doc: Mapping[str, Any]) -> None:")
            lines += ['        """Becomes what a broker\'s document says."""'] + aside
            return lines + ["        self.%s = %s" % (one.name, one.source) for one in fields]
        given = "ident: str, kind: str, " if "=@" in public.fields else ""
        lines.append("    @staticmethod")
        lines.append('    def read(%sdoc: Mapping[str, Any]) -> "%s":' % (given, public.name))
        lines += ['        """Reads a broker\'s document."""'] + aside + ["        return %s(" % public.name]
        return lines + ["            %s=%s," % (one.name, one.source) for one in fields] + ["        )"]


def _quoted(value: Any) -> str:
    return '"%s"' % value if isinstance(value, str) else repr(value)


def _typed_dict(name: str, doc: str, rows: Mapping[bool, List[List[str]]], named: Mapping[bool, bool]) -> List[List[str]]:
    """A TypedDict: its required and other fields need a class each, and names such as ``from`` the functional form."""
    blocks, bases = [], []
    for needed in (True, False):
        last = not needed or not rows[False]
        total = "" if needed else "total=False"
        if not rows[needed] or (last and not named[needed]):
            continue
        base = "_%s%s" % (name, "Required" if needed else "Optional")
        bases.append(base)
        if named[needed]:
            lines = ["%s = TypedDict(" % base, '    "%s",' % base, "    {"]
            for prop, kind, words in rows[needed]:
                lines += comment(words, "        ", "# ") + ['        "%s": %s,' % (prop, kind)]
            blocks.append(lines + ["    }," + (" %s," % total if total else ""), ")"])
        else:
            blocks.append(["class %s(TypedDict):" % base] + _rows(rows[needed]))
    here = [needed for needed in (True, False) if rows[needed] and (not needed or not rows[False]) and not named[needed]]
    above = ", ".join(bases or ["TypedDict"]) + (", total=False" if here == [False] else "")
    body = docstring(doc, "    ")
    for needed in here:
        body += [""] + _rows(rows[needed])
    return blocks + [["class %s(%s):" % (name, above)] + body]


def _rows(rows: List[List[str]]) -> List[str]:
    lines = []
    for prop, kind, words in rows:
        lines += comment(words, "    ") + ["    %s: %s" % (prop, kind)]
    return lines
