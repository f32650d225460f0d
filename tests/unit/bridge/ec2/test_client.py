from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.stub import ANY, Stubber

from trnfleet.bridge.ec2 import client as ec2
from trnfleet.bridge.ec2.client import PAGE, RequestsThrottled, connect, read
from trnfleet.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = (
    ("describe_capacity_blocks", "CapacityBlocks", "DescribeCapacityBlocks"),
    ("describe_capacity_reservations", "CapacityReservations", "DescribeCapacityReservations"),
    ("describe_capacity_block_status", "CapacityBlockStatuses", "DescribeCapacityBlockStatus"),
    (
        "describe_capacity_block_extension_history",
        "CapacityBlockExtensions",
        "DescribeCapacityBlockExtensionHistory",
    ),
)
"""In the order in which they are asked: method, key of the answer, IAM action."""
MOMENT = datetime(2026, 1, 5, 11, 30, tzinfo=UTC)


@pytest.fixture
def client() -> Any:
    return boto3.client(
        "ec2",
        region_name="us-east-2",
        aws_access_key_id="x",
        aws_secret_access_key="y",  # noqa: S106  of nobody
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.fixture
def stub(client: Any) -> Iterator[Stubber]:
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


def answer(stub: Stubber, method: str, key: str, entries: list[Any] | None = None) -> None:
    stub.add_response(method, {key: entries or []}, {"MaxResults": PAGE})


def test_nothing_is_reserved(client: Any, stub: Stubber) -> None:
    """An account without reservations needs four describe calls.

    Instances are not requested.
    """
    for method, key, _ in CALLS:
        answer(stub, method, key)
    reading = read(client)
    assert (reading.blocks, reading.instances, reading.problems) == ([], [], ())


@pytest.mark.parametrize("paged", range(len(CALLS)))
def test_pages_are_read_to_the_end(client: Any, stub: Stubber, paged: int) -> None:
    """Each call follows its token over three pages, against botocore's own model of the API."""
    entries: list[Any] = [
        [{"CapacityBlockId": f"cb-{number}"} for number in range(3)],
        [{"OwnerId": str(number)} for number in range(3)],
        [{"CapacityBlockId": f"cb-{number}"} for number in range(3)],
        [{"CapacityReservationId": f"cr-{number}"} for number in range(3)],
    ]
    for number, (method, key, _) in enumerate(CALLS):
        if number != paged:
            answer(stub, method, key)
            continue
        for page, entry in enumerate(entries[number]):
            response = {key: [entry]} | ({"NextToken": f"t{page}"} if page < 2 else {})
            asked = {"MaxResults": PAGE} | ({"NextToken": f"t{page - 1}"} if page else {})
            stub.add_response(method, response, asked)
    reading = read(client)
    found = (reading.blocks, reading.reservations, reading.statuses, reading.extensions)[paged]
    assert found == entries[paged]


def test_running_instances_are_looked_for_by_reservation(client: Any, stub: Stubber) -> None:
    """Instances that run in a reservation are found by its id, also over several pages."""
    answer(stub, *CALLS[0][:2])
    answer(stub, *CALLS[1][:2], [{"CapacityReservationId": "cr-1"}])
    answer(stub, *CALLS[2][:2])
    answer(stub, *CALLS[3][:2])
    filters = [
        {"Name": "capacity-reservation-id", "Values": ["cr-1"]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    asked = {"MaxResults": PAGE, "Filters": filters}
    one = {
        "Reservations": [{"Instances": [{"InstanceId": "i-1"}, {"InstanceId": "i-2"}]}],
        "NextToken": "t",
    }
    stub.add_response("describe_instances", one, asked)
    two = {"Reservations": [{"Instances": [{"InstanceId": "i-3"}]}]}
    stub.add_response("describe_instances", two, asked | {"NextToken": "t"})
    reading = read(client)
    assert [each["InstanceId"] for each in reading.instances or ()] == ["i-1", "i-2", "i-3"]


@pytest.mark.parametrize("missing", range(len(CALLS)))
@pytest.mark.parametrize("code", ["UnauthorizedOperation", "AccessDenied"])
def test_a_missing_permission_takes_only_its_part(
    client: Any, stub: Stubber, missing: int, code: str
) -> None:
    """A forbidden call names the permission; only its part is unknown."""
    for number, (method, key, _) in enumerate(CALLS):
        if number == missing:
            stub.add_client_error(method, code, expected_params={"MaxResults": PAGE})
        else:
            answer(stub, method, key)
    reading = read(client)
    parts = [reading.blocks, reading.reservations, reading.statuses, reading.extensions]
    assert [part is None for part in parts] == [number == missing for number in range(len(CALLS))]
    (problem,) = reading.problems
    assert problem.startswith(f"ec2:{CALLS[missing][2]} is not allowed ({code})")


def test_instances_may_be_forbidden_too(client: Any, stub: Stubber) -> None:
    """Without ec2:DescribeInstances only the running instances are unknown."""
    answer(stub, *CALLS[0][:2])
    answer(stub, *CALLS[1][:2], [{"CapacityReservationId": "cr-1"}])
    answer(stub, *CALLS[2][:2])
    answer(stub, *CALLS[3][:2])
    stub.add_client_error(
        "describe_instances",
        "UnauthorizedOperation",
        expected_params={"MaxResults": PAGE, "Filters": ANY},
    )
    reading = read(client)
    assert reading.instances is None
    assert reading.problems[0].startswith("ec2:DescribeInstances is not allowed")


def test_instances_are_found_by_the_ids_that_blocks_name(client: Any, stub: Stubber) -> None:
    """Running instances are found by the blocks' own reservation ids.

    This is without ec2:DescribeCapacityReservations.
    """
    answer(stub, *CALLS[0][:2], [{"CapacityBlockId": "cb-1", "CapacityReservationIds": ["cr-1"]}])
    stub.add_client_error("describe_capacity_reservations", "UnauthorizedOperation")
    answer(stub, *CALLS[2][:2])
    answer(stub, *CALLS[3][:2])
    stub.add_response(
        "describe_instances",
        {"Reservations": [{"Instances": [{"InstanceId": "i-1"}]}]},
        {
            "MaxResults": PAGE,
            "Filters": [
                {"Name": "capacity-reservation-id", "Values": ["cr-1"]},
                {"Name": "instance-state-name", "Values": ["pending", "running"]},
            ],
        },
    )
    assert read(client).instances == [{"InstanceId": "i-1"}]


def test_nothing_may_be_read(client: Any, stub: Stubber) -> None:
    """Without blocks and reservations one line names both permissions.

    Nothing is published.
    """
    for number in (0, 1):
        stub.add_client_error(CALLS[number][0], "UnauthorizedOperation")
    with pytest.raises(
        CloudError,
        match=r"nothing may be read: .*DescribeCapacityBlocks .*DescribeCapacityReservations ",
    ):
        read(client)


def test_a_call_that_a_region_does_not_offer(client: Any, stub: Stubber) -> None:
    """A call that EC2 does not know in a region takes away its part only."""
    stub.add_client_error("describe_capacity_blocks", "InvalidAction")
    for number in (1, 2, 3):
        answer(stub, *CALLS[number][:2])
    reading = read(client)
    assert (reading.blocks, reading.reservations) == (None, [])
    assert reading.problems[0].startswith(
        "ec2:DescribeCapacityBlocks is not offered here (InvalidAction)"
    )


def test_throttled_and_then_not(client: Any, stub: Stubber) -> None:
    """A reading after a throttled one is complete."""
    stub.add_client_error("describe_capacity_blocks", "RequestLimitExceeded")
    with pytest.raises(RequestsThrottled):
        read(client)
    for method, key, _ in CALLS:
        answer(stub, method, key)
    assert read(client).problems == ()


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "Throttling", "EC2ThrottledException"])
def test_throttling_is_its_own_error(client: Any, stub: Stubber, code: str) -> None:
    """Throttling by EC2 ends the reading with its own error; the caller can wait."""
    stub.add_client_error("describe_capacity_blocks", code)
    with pytest.raises(RequestsThrottled, match=code):
        read(client)


def test_other_refusals_are_one_line(client: Any, stub: Stubber) -> None:
    """Any other error of EC2 is told with the call, its code and EC2's words."""
    stub.add_client_error("describe_capacity_blocks", "InvalidParameterValue", "no\nsuch")
    with pytest.raises(
        CloudError, match=r"^EC2: describe_capacity_blocks: InvalidParameterValue: no such$"
    ):
        read(client)


def test_a_token_that_never_ends(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Endless pages of an API end the reading at a limit."""
    monkeypatch.setattr(ec2, "MOST_PAGES", 3)
    with Stubber(client) as stub:
        for page in range(3):
            asked = {"MaxResults": PAGE} | ({"NextToken": "t"} if page else {})
            stub.add_response(
                "describe_capacity_blocks", {"CapacityBlocks": [], "NextToken": "t"}, asked
            )
        with pytest.raises(CloudError, match="more than 3 pages"):
            read(client)


def test_only_descriptions_are_asked_for() -> None:
    """Only describe calls are made, for any answers."""
    asked: list[str] = []

    class Client:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            entry = {"CapacityReservationId": "cr-1", "CapacityBlockId": "cb-1"}
            return lambda **_: {key: [entry] for _, key, _ in CALLS} | {"Reservations": []}

    read(Client())
    assert sorted(set(asked)) == sorted([*(method for method, _, _ in CALLS), "describe_instances"])
    assert all(name.startswith("describe_") for name in asked)


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without credentials one line says how to give some; nothing is asked over the network."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", raising=False)
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", raising=False)
    with pytest.raises(CloudError, match="no credentials; log in"):
        read(connect("us-east-2", None))


def test_no_region_and_no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a region, or with a profile that is not there, one line says so."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(CloudError, match="no region; give --region"):
        connect(None, None)
    with pytest.raises(CloudError, match="nobody"):
        connect("us-east-2", "nobody")


def test_boto3_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without boto3 one line says how to install it."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(CloudError, match="pipx inject trnfleet boto3"):
        connect("us-east-2", None)
