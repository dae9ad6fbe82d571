#!/usr/bin/env python3
"""Writes the generated files of the package with nothing but the standard library.

    python3 generate.py            writes sluice/_documents.py, sluice/_shapes.py, and what waits: sluice/_sync.py, _co_sync.py and _rsvp_sync.py
    python3 generate.py --check    says which of them are stale, and ends with status 1 if one is

The documents come from docs/openapi.json, the waiting half from the awaited one. The same sources give the same bytes.
"""

import argparse
import json
import pathlib
import sys
from typing import Dict

sys.dont_write_bytecode = True
from generator.documents import Documents  # noqa: E402
from generator.schema import Missing, OpenApi  # noqa: E402
from generator.twin import TWINS, Untranslated, waiting  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
OPENAPI = HERE.parent.parent / "docs" / "openapi.json"
PACKAGE = HERE / "sluice"


def generated() -> Dict[pathlib.Path, str]:
    """The files and their content."""
    texts = Documents(OpenApi(json.loads(OPENAPI.read_text(encoding="utf-8")))).texts()
    for awaited, (waits, title) in TWINS.items():
        source = PACKAGE / awaited
        texts[waits] = waiting(source.read_text(encoding="utf-8"), str(source), title)
    return {PACKAGE / name: text for name, text in sorted(texts.items())}


def main() -> int:
    arguments = argparse.ArgumentParser(description="Writes the generated files of the Python package.")
    arguments.add_argument("--check", action="store_true", help="write nothing; end with status 1 if a file is stale")
    check = arguments.parse_args().check
    try:
        files = generated()
    except (Missing, Untranslated, OSError, ValueError) as error:
        print("generate.py: %s" % error, file=sys.stderr)
        return 1
    stale = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if check:
            print("%s is stale: python3 client/python/generate.py writes it" % path.name, file=sys.stderr)
        else:
            path.write_text(files[path], encoding="utf-8")
            print("wrote %s" % path)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
