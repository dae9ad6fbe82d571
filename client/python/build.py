#!/usr/bin/env python3
"""Writes the wheel of the package with nothing but the standard library: python3 build.py OUT

A wheel is a zip file with a few lists in it (PEP 427); this one is pure Python, and the same sources give the same bytes.
"""

import base64
import hashlib
import pathlib
import re
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def main() -> None:
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    said = (HERE / "pyproject.toml").read_text()
    version, words, python = (
        re.search(r'^%s = "(.*)"$' % name, said, re.M).group(1) for name in ("version", "description", "requires-python")
    )
    info = "sluice-%s.dist-info" % version
    metadata = "Metadata-Version: 2.1\nName: sluice\nVersion: %s\nSummary: %s\nLicense: MIT OR Apache-2.0\nRequires-Python: %s\n"
    files = {"sluice/" + path.name: path.read_bytes() for path in sorted((HERE / "sluice").iterdir()) if path.suffix in (".py", ".typed")}
    files[info + "/METADATA"] = (metadata % (version, words, python)).encode()
    files[info + "/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: sluice\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(content))
    files[info + "/RECORD"] = (record + "%s/RECORD,,\n" % info).encode()
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / ("sluice-%s-py3-none-any.whl" % version)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(wheel)


if __name__ == "__main__":
    main()
