"""The login that `sluice login` keeps, as the package reads it: whose it is, who may write it, what may be in it."""

import atexit
import os
import shutil
import sys
import tempfile
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from sluice import _login  # noqa: E402
from sluice._wire import Place  # noqa: E402

for name in ("SLUICE_BROKER", "SLUICE_TOKEN", "SLUICE_LOGIN", "XDG_CONFIG_HOME"):
    os.environ.pop(name, None)
folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder)
os.environ["HOME"] = folder
path = os.path.join(folder, ".config", "sluice", "login.toml")


def places(where=None):
    return [one.socket or one.host for one in Place.all(where, None, None, None, None)]


def refused(words):
    try:
        places()
    except ValueError as error:
        assert words in str(error), error
        return
    raise AssertionError("not refused: %s" % words)


assert places() == ["/run/sluice/broker.sock"], "nobody has logged in"
os.makedirs(os.path.dirname(path))
with open(path, "w", encoding="utf-8") as file:
    file.write('broker = "unix:/tmp/a \\"b\\".sock,http://127.0.0.1:8080"\n# a comment\n')
os.chmod(path, 0o600)
assert places() == ['/tmp/a "b".sock', "127.0.0.1"], places()
assert places("unix:/other") == ["/other"], "what is named comes first"
os.environ["SLUICE_BROKER"] = "unix:/environment"
assert places() == ["/environment"]
del os.environ["SLUICE_BROKER"]
os.environ["SLUICE_LOGIN"] = ""
assert places() == ["/run/sluice/broker.sock"], "none is to be read"
del os.environ["SLUICE_LOGIN"]
os.chmod(path, 0o620)
refused("chmod 600")
os.chmod(path, 0o600)
if os.geteuid() == 0:
    os.chown(path, 1000, -1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert places() == ["/run/sluice/broker.sock"], "a stranger's"
    assert any("belongs to user 1000" in str(one.message) for one in told), told
    os.chown(path, 0, -1)
for text in ("broker = 7\n", 'colour = "red"\n', "broker\n", "\0\n", 'broker = "x\n'):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    refused("login.toml:1")
with open(path, "w", encoding="utf-8") as file:
    file.write("#" * (_login.MOST + 1))
refused("the most")
print("logins are read")
