"""ActiveMQ Classic with its MQTT transport, as Debian packages it."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.brokers.process import HOST, PASSWORD, VIEWER, BrokerProcess

_HOME = Path("/usr/share/activemq")
_MORE_JARS = ("mqtt-client", "hawtdispatch", "hawtdispatch-transport", "hawtbuf")
_CONFIGURATION = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" useJmx="false" brokerName="trnfleet"
      dataDirectory="{folder}/data" schedulerSupport="false">
    <persistenceAdapter><kahaDB directory="{folder}/data/kahadb"/></persistenceAdapter>
    <plugins>
      <simpleAuthenticationPlugin anonymousAccessAllowed="true" anonymousUser="everybody" anonymousGroup="everybody">
        <users><authenticationUser username="{viewer}" password="{password}" groups="viewers"/></users>
      </simpleAuthenticationPlugin>
      <authorizationPlugin><map><authorizationMap><authorizationEntries>
        <authorizationEntry topic="&gt;" read="everybody,viewers" write="everybody" admin="everybody,viewers"/>
        <authorizationEntry queue="&gt;" read="everybody,viewers" write="everybody" admin="everybody,viewers"/>
        <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="everybody,viewers" write="everybody,viewers"
          admin="everybody,viewers"/>
      </authorizationEntries></authorizationMap></map></authorizationPlugin>
    </plugins>
    <transportConnectors>
      <transportConnector name="mqtt" uri="mqtt://{host}:{port}"/>
    </transportConnectors>
  </broker>
</beans>
"""  # noqa: E501


class ActiveMq(BrokerProcess):
    """ActiveMQ Classic."""

    name = "ActiveMQ"
    speaks = "3.1.1"

    @classmethod
    def version(cls) -> str | None:
        """Return the version of the packaged broker."""
        if shutil.which("java") is None or not all(_jar(each).exists() for each in _MORE_JARS):
            return None
        found = sorted(Path("/usr/share/java").glob("activemq-mqtt-*.jar"))
        return found[0].stem.removeprefix("activemq-mqtt-") if found else None

    def command(self) -> list[str]:
        """Write the configuration."""
        file = self.folder / "activemq.xml"
        file.write_text(
            _CONFIGURATION.format(
                folder=self.folder, viewer=VIEWER, password=PASSWORD, host=HOST, port=self.port
            )
        )
        jars = [*_HOME.glob("lib/*.jar"), *_HOME.glob("lib/optional/*.jar"), *map(_jar, _MORE_JARS)]
        paths = ":".join(str(each) for each in [_HOME / "bin" / "activemq.jar", *jars])
        settings = [f"-Dactivemq.home={_HOME}", f"-Dactivemq.base={self.folder}", "-Xmx512M"]
        return [
            "java",
            *settings,
            "-cp",
            paths,
            "org.apache.activemq.console.Main",
            "start",
            f"xbean:file:{file}",
        ]


def _jar(name: str) -> Path:
    return Path("/usr/share/java") / f"{name}.jar"
