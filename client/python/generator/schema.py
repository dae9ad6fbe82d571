"""Reads the schemas of an OpenAPI 3.1 text: references, ``allOf``, ``oneOf`` and ``null`` are resolved here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Tuple


class Missing(Exception):
    """The OpenAPI text lacks something that the package promises."""


@dataclass(frozen=True)
class Schema:
    """A resolved schema."""

    #: ``object``, ``array``, ``enum``, ``instant``, ``string``, ``integer``, ``number``, ``boolean``, ``map`` (an object without
    #: known properties), ``null`` or ``any``.
    kind: str
    #: The name among the components; None: it stands where it is used.
    component: Optional[str] = None
    #: The description at the place of use.
    doc: str = ""
    #: The description of the type itself.
    own_doc: str = ""
    nullable: bool = False
    #: Of an object: the raw schemas of its properties.
    properties: Mapping[str, Any] = field(default_factory=dict)
    required: FrozenSet[str] = frozenset()
    #: Of an object: True if each of its variants has other properties.
    variants: bool = False
    #: Of an array: the raw schema of its items.
    items: Any = None
    #: Of an enum: its values, each with its description.
    values: Tuple[Tuple[Any, str], ...] = ()


def _joined(parts: List[Schema], all_of: bool) -> Schema:
    """One object of several: all of them together (``allOf``), or one of them at a time (``oneOf``)."""
    properties: Dict[str, Any] = {}
    for part in parts:
        for name, raw in part.properties.items():
            known = properties.get(name, raw)
            if known != raw and "enum" in known and "enum" in raw:
                raw = {**known, "enum": list(dict.fromkeys(known["enum"] + raw["enum"]))}
            elif known != raw:
                raw = {"description": known.get("description", "")}
            properties[name] = raw
    sets = [part.required for part in parts]
    required = frozenset().union(*sets) if all_of else frozenset.intersection(*sets)
    return Schema("object", properties=properties, required=required, variants=not all_of)


class OpenApi:
    """An OpenAPI text; its schemas are found by the operations that use them, so that they may be renamed."""

    def __init__(self, text: Mapping[str, Any]) -> None:
        self._components = text["components"]["schemas"]
        self._operations = {
            operation["operationId"]: operation for path in text["paths"].values() for operation in path.values()
        }

    def at(self, where: str) -> Schema:
        """The schema at ``OPERATION.request`` or ``OPERATION.response``, and on through ``/PROPERTY``; arrays count for nothing."""
        root, *names = where.split("/")
        name, _, side = root.partition(".")
        operation = self._operations.get(name)
        if operation is None:
            raise Missing("no operation is called %r" % name)
        if side == "request":
            content = operation["requestBody"]["content"]
        else:
            content = next(one for status, one in operation["responses"].items() if status.startswith("2"))["content"]
        found = self.inner(next(iter(content.values()))["schema"])
        for one in names:
            if one not in found.properties:
                raise Missing("%s: there is no property %r" % (where, one))
            found = self.inner(found.properties[one])
        return found

    def inner(self, raw: Mapping[str, Any]) -> Schema:
        """The resolved schema; of an array, that of its items."""
        found = self.resolve(raw)
        return self.inner(found.items) if found.kind == "array" else found

    def resolve(self, raw: Mapping[str, Any]) -> Schema:
        """The schema without references."""
        doc = raw.get("description", "")
        if "$ref" in raw:
            name = raw["$ref"].rsplit("/", 1)[-1]
            found = self.resolve(self._components[name])
            return replace(found, component=found.component or name, doc=doc or found.own_doc)
        found = self._bare(raw)
        return replace(found, doc=doc or found.doc, own_doc=doc or found.own_doc)

    def _bare(self, raw: Mapping[str, Any]) -> Schema:
        for word in ("allOf", "oneOf", "anyOf"):
            if word in raw:
                return self._several([self.resolve(one) for one in raw[word]], word == "allOf")
        kinds = raw.get("type", "any")
        kinds = [kinds] if isinstance(kinds, str) else kinds
        null = "null" in kinds
        values = [raw["const"]] if "const" in raw else raw.get("enum")
        if values is not None:
            said = tuple((one, raw.get("description", "")) for one in values if one is not None)
            return Schema("enum", values=said, nullable=null or None in values)
        rest = [one for one in kinds if one != "null"]
        if not rest:
            return Schema("null", nullable=True)
        kind = rest[0] if len(rest) == 1 else "any"
        if kind == "string" and raw.get("format") == "date-time":
            return Schema("instant", nullable=null)
        if kind == "array":
            return Schema("array", nullable=null, items=raw.get("items", {}))
        if kind == "object" and raw.get("properties"):
            return Schema("object", nullable=null, properties=raw["properties"], required=frozenset(raw.get("required", ())))
        return Schema("map" if kind == "object" else kind, nullable=null)

    def _several(self, parts: List[Schema], all_of: bool) -> Schema:
        rest = [part for part in parts if part.kind != "null"]
        null = len(rest) < len(parts) or (not all_of and any(part.nullable for part in rest))
        if len(rest) == 1:
            return replace(rest[0], nullable=null or rest[0].nullable)
        if rest and all(part.kind == "object" for part in rest):
            return replace(_joined(rest, all_of), nullable=null)
        if rest and not all_of and all(part.kind == "enum" for part in rest):
            return Schema("enum", nullable=null, values=tuple(value for part in rest for value in part.values))
        return Schema("any", nullable=null)
