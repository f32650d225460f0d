"""aedes, a broker for Node.js, by a few lines of its own."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from support.paths import ROOT

from lab.brokers.process import HOST, VIEWER, BrokerProcess

MODULES = Path(
    os.environ.get("TRNFLEET_TEST_NODE_MODULES", ROOT / ".venv" / "brokers" / "node_modules")
)
"""Where `.ci/brokers` installs it."""
_SCRIPT = """\
const { Aedes } = require('aedes');
const net = require('net');
(async () => {
  const aedes = await Aedes.createBroker();
  aedes.authenticate = (client, user, password, done) => { client.user = user; done(null, true); };
  aedes.authorizePublish = (client, packet, done) =>
    done(client && client.user === VIEWER ? new Error('not authorised') : null);
  net.createServer(aedes.handle).listen(PORT, HOST);
})();
"""


class Aedes(BrokerProcess):
    """aedes without persistence, as it comes."""

    name = "aedes"
    speaks = "3.1.1"

    @classmethod
    def version(cls) -> str | None:
        """Return the package's version."""
        file = MODULES / "aedes" / "package.json"
        if shutil.which("node") is None or not file.exists():
            return None
        version: str = json.loads(file.read_text())["version"]
        return version

    def environment(self) -> dict[str, str]:
        """Return where its packages are."""
        return {"NODE_PATH": str(MODULES)}

    def command(self) -> list[str]:
        """Write the script."""
        file = self.folder / "broker.cjs"
        values = {"VIEWER": VIEWER, "PORT": self.port, "HOST": HOST}
        head = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
        file.write_text(head + _SCRIPT)
        return ["node", str(file)]
