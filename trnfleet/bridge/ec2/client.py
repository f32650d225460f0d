"""Reader of reserved capacity in EC2: describe calls only, page by page.

Failed calls are reported. It blocks, and is meant for a thread. Without a permission only the
answers of its call are missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trnfleet.errors import CloudError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_PAGES = 200
"""Most pages of one call, in case its token never ends."""
PAGE = 100
"""Entries that are asked for at once."""
TIMEOUT_S = 20
MOST_FILTERED = 200
"""Most values of a filter; published."""
_THROTTLED = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
"""EC2 error codes treated as throttling by botocore."""
_FORBIDDEN = frozenset(
    {"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OptInRequired"}
)
_UNOFFERED = frozenset({"InvalidAction", "UnsupportedOperation", "UnknownOperationException"})


class RequestsThrottled(CloudError):  # noqa: N818  it is an answer more than an error
    """EC2 throttles the requests."""


@dataclass(frozen=True, slots=True)
class Reading:
    """EC2's answers as returned by botocore; None for failed calls."""

    blocks: list[dict[str, Any]] | None = None
    statuses: list[dict[str, Any]] | None = None
    reservations: list[dict[str, Any]] | None = None
    extensions: list[dict[str, Any]] | None = None
    instances: list[dict[str, Any]] | None = None
    """Instances that run in a reservation."""
    problems: tuple[str, ...] = field(default=())
    """Failed calls and the reasons, a line each."""


def connect(region: str | None, profile: str | None) -> Any:
    """Return an EC2 client.

    Raises:
        CloudError: boto3 is not installed, or knows no region or profile.
    """
    try:
        import boto3  # noqa: PLC0415  an extra
        from botocore.config import Config  # noqa: PLC0415  an extra
        from botocore.exceptions import BotoCoreError, NoRegionError  # noqa: PLC0415  an extra
    except ImportError:
        raise CloudError(
            "boto3 is not installed: pip install boto3, or pipx inject trnfleet boto3"
        ) from None
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 4},
        connect_timeout=TIMEOUT_S,
        read_timeout=TIMEOUT_S,
    )
    try:
        session = boto3.Session(region_name=region, profile_name=profile)
        return session.client("ec2", config=config)
    except NoRegionError:
        raise CloudError(
            "EC2: no region; give --region, such as us-east-2, or set AWS_DEFAULT_REGION"
        ) from None
    except BotoCoreError as error:
        raise CloudError(f"EC2: {error}") from error


def read(client: Any) -> Reading:
    """Read all reserved capacity.

    Args:
        client: boto3's for EC2.

    Raises:
        Throttled: EC2 throttles, after botocore's own retries.
        CloudError: it cannot be asked at all; one line says why.
    """
    from botocore.exceptions import (  # noqa: PLC0415  an extra
        BotoCoreError,
        ClientError,
        NoCredentialsError,
    )

    problems: list[str] = []

    def pages(operation: str, key: str, **arguments: Any) -> list[dict[str, Any]] | None:
        try:
            return list(_pages(client, operation, key, **arguments))
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in _THROTTLED:
                raise RequestsThrottled(f"EC2: {operation}: {code}") from error
            if code in _FORBIDDEN:
                problems.append(
                    f"ec2:{_action(operation)} is not allowed ({code}); its answers stay unknown"
                )
                return None
            if code in _UNOFFERED:
                problems.append(
                    f"ec2:{_action(operation)} is not offered here ({code}); its answers stay"
                    " unknown"
                )
                return None
            said = " ".join(str(error.response.get("Error", {}).get("Message", "")).split())[:200]
            raise CloudError(
                f"EC2: {operation}: {': '.join(filter(None, (code, said)))}"
            ) from error
        except NoCredentialsError:
            raise CloudError(
                "EC2: no credentials; log in, set AWS_PROFILE, or give --profile"
            ) from None
        except BotoCoreError as error:
            raise CloudError(f"EC2: {operation}: {error}") from error

    blocks = pages("describe_capacity_blocks", "CapacityBlocks")
    reservations = pages("describe_capacity_reservations", "CapacityReservations")
    if blocks is None and reservations is None:
        raise CloudError(f"EC2: nothing may be read: {'; '.join(problems)}")
    ids = {
        reservation["CapacityReservationId"]
        for reservation in reservations or ()
        if "CapacityReservationId" in reservation
    }
    ids.update(name for block in blocks or () for name in block.get("CapacityReservationIds", ()))
    return Reading(
        blocks=blocks,
        statuses=pages("describe_capacity_block_status", "CapacityBlockStatuses"),
        reservations=reservations,
        extensions=pages("describe_capacity_block_extension_history", "CapacityBlockExtensions"),
        instances=_instances(pages, sorted(ids)),
        problems=tuple(problems),
    )


def _instances(pages: Any, ids: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return the running instances of reservations.

    A filter's number of ids is limited.
    """
    running: list[dict[str, Any]] = []
    for first in range(0, len(ids), MOST_FILTERED):
        filters = [
            {"Name": "capacity-reservation-id", "Values": ids[first : first + MOST_FILTERED]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ]
        groups = pages("describe_instances", "Reservations", Filters=filters)
        if groups is None:
            return None
        running += [instance for group in groups for instance in group.get("Instances", ())]
    return running


def _pages(client: Any, operation: str, key: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    token: str | None = None
    for _ in range(MOST_PAGES):
        more = {} if token is None else {"NextToken": token}
        answer = getattr(client, operation)(MaxResults=PAGE, **arguments, **more)
        yield from answer.get(key, ())
        token = answer.get("NextToken") or None
        if token is None:
            return
    raise CloudError(f"EC2: {operation}: more than {MOST_PAGES} pages")


def _action(operation: str) -> str:
    return "".join(part.title() for part in operation.split("_"))
