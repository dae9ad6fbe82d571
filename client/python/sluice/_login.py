"""What ``sluice login`` keeps of this user: a broker, certificates, a token."""

from __future__ import annotations

import json
import os
import warnings
from typing import Dict

#: The variable that names another file; empty: none is read.
FILE = "SLUICE_LOGIN"
#: The most that a login file has, in bytes.
MOST = 16 << 10
KEYS = ("broker", "socket", "ca", "certificate", "certificate_key", "token")


def _path() -> str:
    if FILE in os.environ:
        return os.environ[FILE]
    home = os.environ.get("HOME")
    config = os.environ.get("XDG_CONFIG_HOME") or (home and os.path.join(home, ".config"))
    return os.path.join(config, "sluice", "login.toml") if config else ""


def read() -> Dict[str, str]:
    """The keys of the login file; none if there is no such file, or if it is somebody else's: who could write it could send
    our requests to a place of theirs.

    ``ValueError``: others may write the file, or it is none of ``sluice login``.
    """
    path = _path()
    if not path:
        return {}
    try:
        file = open(path, "rb")
    except (FileNotFoundError, PermissionError):
        # A service may have the home folder of who started it.
        return {}
    with file:
        found = os.fstat(file.fileno())
        if found.st_uid not in (os.geteuid(), 0):
            warnings.warn("%s belongs to user %d and is not read" % (path, found.st_uid), stacklevel=2)
            return {}
        if found.st_mode & 0o022:
            raise ValueError("%s: others may write it: chmod 600 %s" % (path, path))
        text = file.read(MOST + 1)
    if len(text) > MOST:
        raise ValueError("%s: %d bytes are the most of a login" % (path, MOST))
    kept: Dict[str, str] = {}
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        try:
            # The strings that are written there are those of JSON.
            said = json.loads(value) if equals and name in KEYS else None
        except ValueError:
            said = None
        if not isinstance(said, str):
            raise ValueError("%s:%d: no line of a login: `sluice login` writes it anew" % (path, number))
        kept[name] = said
    return kept
