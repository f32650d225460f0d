"""ejabberd with mod_mqtt alone, as Debian packages it."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.brokers.process import HOST, VIEWER, BrokerProcess

_CONFIGURATION = """\
loglevel: warning
hosts: [localhost]
auth_method: [anonymous]
anonymous_protocol: login_anon
allow_multiple_connections: true
acl:
  viewer:
    user: [{viewer}]
access_rules:
  writers:
    - deny: viewer
    - allow: all
listen:
  -
    port: {port}
    ip: "{host}"
    module: mod_mqtt
    backlog: 1000
modules:
  mod_mqtt:
    access_publish:
      "#":
        - deny: viewer
        - allow: all
"""


class Ejabberd(BrokerProcess):
    """ejabberd; everybody needs a name there, and logs in with any password."""

    name = "ejabberd"
    speaks = "5"
    needs_user = "everybody@localhost"

    @classmethod
    def version(cls) -> str | None:
        """Return the version of the package."""
        if shutil.which("erl") is None:
            return None
        found = _libraries()
        return found[0].parent.name.removeprefix("ejabberd-").partition("-")[0] if found else None

    def environment(self) -> dict[str, str]:
        """Return its files."""
        return {
            "EJABBERD_CONFIG_PATH": str(self.folder / "ejabberd.yml"),
            "EJABBERD_LOG_PATH": str(self.folder / "ejabberd.log"),
            "HOME": str(self.folder),
        }

    def command(self) -> list[str]:
        """Write the configuration.

        It is not a cluster node and therefore needs no epmd.
        """
        text = _CONFIGURATION.format(viewer=VIEWER, host=HOST, port=self.port)
        (self.folder / "ejabberd.yml").write_text(text)
        return [
            *("erl", "-noinput", "-pa", *map(str, _libraries())),
            *("-mnesia", "dir", f'"{self.folder}/spool"', "-s", "ejabberd"),
        ]


def _libraries() -> list[Path]:
    return sorted(
        each.parent
        for each in Path("/usr/lib").glob("*/ejabberd-*/ebin/*.app")
        if each.stem == "ejabberd"
    )
