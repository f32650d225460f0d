"""HostIdentity of an EC2 instance: from its metadata service (IMDSv2), or from its firmware (DMI).

Both block: call them in a thread. Published: paths and answers of the metadata service. Assumed:
DMI has the instance's id as asset tag and its type as product name, as on other Nitro instances.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import urllib.parse
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.bridge.neuron.telemetry import HostEvent
from trnfleet.domain.address import is_segment
from trnfleet.domain.severity import Severity
from trnfleet.errors import CloudError, ConfigError
from trnfleet.text import plain

if TYPE_CHECKING:
    from pathlib import Path

IMDS_URL = "http://169.254.169.254"
"""The metadata service of every instance (published)."""
_ANSWER_S = 1.0
_TRIES = 3
_TOKEN_TTL_S = 300
_MOST_BYTES = 65_536
_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")
NOTICES = {
    "instance-retirement": "instance_retirement",
    "instance-stop": "instance_stop",
    "instance-reboot": "instance_reboot",
    "system-reboot": "instance_reboot",
    "system-maintenance": "system_maintenance",
}
"""Names of events by EC2's code of a scheduled event (published)."""


UNLISTED = "no longer listed"
"""State of a scheduled event that EC2 has left out since: it lists those to come."""


class HostIdentity(NamedTuple):
    """Facts of an instance; empty ones are unknown."""

    ec2_id: str = ""
    instance_type: str = ""
    zone: str = ""
    source: str = ""

    def __str__(self) -> str:
        known = (self.ec2_id, self.instance_type, self.zone)
        return " ".join(filter(None, known)) or "nothing known"


class MaintenanceNotice(NamedTuple):
    """A scheduled event of EC2 in one of its states."""

    id: str
    code: str
    state: str
    begin: str

    @property
    def is_over(self) -> bool:
        """Whether nothing is to come."""
        return self.state in {"completed", "canceled", UNLISTED}

    @property
    def event(self) -> HostEvent:
        """The event of the instance, the same from each start of an agent."""
        begin = f", not before {self.begin}" if self.begin and not self.is_over else ""
        return HostEvent(
            "maintenance_over" if self.is_over else NOTICES.get(self.code, "maintenance"),
            f"EC2 scheduled event: {self.code} ({self.state}{begin})",
            Severity.INFO if self.is_over else Severity.WARNING,
            source="ec2",
            key=" ".join(self),
        )


class MetadataService:
    """The metadata service of this instance."""

    def __init__(self, url: str = IMDS_URL) -> None:
        """Describe the service.

        Raises:
            ConfigError: the URL is not one of http.
        """
        try:
            parts = urllib.parse.urlsplit(url)
            host = parts.hostname if parts.scheme == "http" else None
            self._port = parts.port or 80
        except ValueError:
            host = None
        if not host:
            raise ConfigError(f"--imds {url}: must be http://host[:port]")
        self._host = host
        self._url = url

    def identity(self) -> HostIdentity:
        """Return the instance's identity.

        Raises:
            CloudError: no answer, or not the service's.
        """
        text = self._read("/latest/dynamic/instance-identity/document")
        try:
            facts = json.loads(text)
            zone = str(facts.get("availabilityZone", ""))
            identity = HostIdentity(
                str(facts["instanceId"]), str(facts["instanceType"]), zone, "IMDS"
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise CloudError(f"{self._url}: not an identity document") from None
        if not is_segment(identity.ec2_id):
            raise CloudError(f"{self._url}: not an identity document: it has no instance id")
        return identity

    def notices(self) -> list[MaintenanceNotice]:
        """Return the scheduled events of the instance.

        Raises:
            CloudError: no answer, or not the service's.
        """
        text = self._read("/latest/meta-data/events/maintenance/scheduled")
        try:
            entries = json.loads(text or b"[]")
            return [
                MaintenanceNotice(
                    *(
                        plain(str(entry.get(key, "")), 80)
                        for key in ("EventId", "Code", "State", "NotBefore")
                    )
                )
                for entry in entries
            ]
        except (ValueError, TypeError, AttributeError, RecursionError):
            raise CloudError(f"{self._url}: not a list of scheduled events") from None

    def _read(self, path: str) -> bytes:
        """Return the text at a path; empty if there is none."""
        reason = ""
        for _ in range(_TRIES):
            try:
                token = self._request(
                    "PUT",
                    "/latest/api/token",
                    {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_TTL_S)},
                )
                return self._request("GET", path, {"X-aws-ec2-metadata-token": token.decode()})
            except (OSError, http.client.HTTPException, ValueError) as error:
                # A token that cannot be a header is a ValueError.
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise CloudError(f"{self._url}: {reason}")

    def _request(self, method: str, path: str, headers: dict[str, str]) -> bytes:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_ANSWER_S)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            text = answer.read(_MOST_BYTES)
        if answer.status == http.HTTPStatus.NOT_FOUND and method == "GET":
            return b""
        if answer.status != http.HTTPStatus.OK:
            raise http.client.HTTPException(f"status {answer.status} for {path}")
        return text


def read_dmi(root: Path) -> HostIdentity:
    """Return the identity in the firmware's tables, as far as it is EC2's."""
    folder = root / "sys/devices/virtual/dmi/id"
    names = {}
    for name in ("board_asset_tag", "product_name"):
        names[name] = ""
        with contextlib.suppress(OSError):
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
            names[name] = text[:64].strip()
    if not _INSTANCE_ID.fullmatch(names["board_asset_tag"]):
        return HostIdentity()
    return HostIdentity(names["board_asset_tag"], names["product_name"], source="DMI")
