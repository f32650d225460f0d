"""Identity of an instance from its metadata service and its firmware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.fake_host import EC2_ID, metadata_service

from trnfleet.bridge.host.identity import (
    HostIdentity,
    MaintenanceNotice,
    MetadataService,
    read_dmi,
)
from trnfleet.domain.severity import Severity
from trnfleet.errors import CloudError, ConfigError

if TYPE_CHECKING:
    from pathlib import Path

IDENTITY = "/latest/dynamic/instance-identity/document"
SCHEDULED = "/latest/meta-data/events/maintenance/scheduled"


def test_the_metadata_service_names_the_instance() -> None:
    """Two failed requests are tried again, a third is not."""
    with metadata_service() as fake:
        service = MetadataService(fake.url)
        fake.refusals = 2

        assert service.identity() == HostIdentity(EC2_ID, "trn2.48xlarge", "us-east-2b", "IMDS")

        fake.refusals = 3
        with pytest.raises(CloudError, match="status 503 for /latest/api/token"):
            service.identity()


@pytest.mark.parametrize(
    "answer",
    [[], {"instanceId": "i-1"}, {"instanceId": "a/b", "instanceType": "t"}, "text", None],
)
def test_another_answer_is_refused(answer: Any) -> None:
    with metadata_service() as fake:
        fake.answers[IDENTITY] = answer
        with pytest.raises(CloudError, match="not an identity document"):
            MetadataService(fake.url).identity()


def test_a_token_that_is_no_header_is_named() -> None:
    """As of another service at this address."""
    with metadata_service() as fake:
        fake.token = b"<html>\n"
        with pytest.raises(CloudError, match="Invalid header value"):
            MetadataService(fake.url).identity()


def test_an_absent_service_is_named() -> None:
    with metadata_service() as fake:
        pass
    with pytest.raises(CloudError, match=rf"^{fake.url}: Connection refused"):
        MetadataService(fake.url).identity()
    for url in ("https://metadata", "http://metadata:99999", "http://[metadata"):
        with pytest.raises(ConfigError, match="must be http://host"):
            MetadataService(url)


def test_scheduled_events_have_the_names_of_the_rules() -> None:
    """Without any, the service has no such path."""
    with metadata_service() as fake:
        service = MetadataService(fake.url)
        assert service.notices() == []
        fake.answers[SCHEDULED] = [
            {
                "EventId": "instance-event-1",
                "Code": "instance-retirement",
                "State": "active",
                "NotBefore": "21 Jan 2026 09:00:43 GMT",
                "Description": "private",
            }
        ]
        (notice,) = service.notices()
        fake.answers[SCHEDULED] = ["text"]
        with pytest.raises(CloudError, match="not a list of scheduled events"):
            service.notices()

    event = notice.event
    assert (event.name, event.severity) == ("instance_retirement", Severity.WARNING)
    assert event.text == (
        "EC2 scheduled event: instance-retirement (active, not before 21 Jan 2026 09:00:43 GMT)"
    )
    over = MaintenanceNotice("instance-event-1", "instance-retirement", "completed", "").event
    assert (over.name, over.severity) == ("maintenance_over", Severity.INFO)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [(EC2_ID, HostIdentity(EC2_ID, "trn2.48xlarge", "", "DMI")), ("Not set", HostIdentity())],
)
def test_the_firmware_names_the_instance(tmp_path: Path, tag: str, expected: Any) -> None:
    """The asset tag of another machine is no instance's id."""
    folder = tmp_path / "sys/devices/virtual/dmi/id"
    folder.mkdir(parents=True)
    (folder / "board_asset_tag").write_text(f"{tag}\n")
    (folder / "product_name").write_text("trn2.48xlarge\n")

    assert read_dmi(tmp_path) == expected
    assert read_dmi(tmp_path / "none") == HostIdentity()
