"""JSON requests to a URL and their outcome.

Certificates are always checked.

Answers are requested without compression, and compressed ones are refused unread: a few kB could
unpack to gigabytes. So the limits on bytes apply to memory.

User and password come from the URL or a variable. They and the path, possibly a secret, are never
shown or logged.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from trnfleet.clock import NS_PER_S, Clock
from trnfleet.errors import ConfigError
from trnfleet.export.receiver import finished_within
from trnfleet.wire.values import LATEST_NS

if TYPE_CHECKING:
    import httpx


WHOLE_LIMIT_S = 20.0
"""Longest time of a whole request."""
MOST_BYTES = 16 * 2**20
"""Longest answer read: some 10,000 alerts."""
SHOWN_CHARACTERS = 300
_RETRIED = frozenset({408, 425, 429})
"""Temporary refusals, independent of the content sent."""


class RequestOutcome(enum.Enum):
    """The outcome of a request."""

    DONE = "done"
    REFUSED = "refused"
    """Refused for good."""
    FAILED = "failed"
    """It may succeed if it is repeated."""


class Answer(NamedTuple):
    """The outcome of a request, and its reason."""

    outcome: RequestOutcome
    why: str = ""
    content: Any = None
    """Body of the answer, if it was to be read."""
    date_ns: int | None = None
    """Wall clock of the other side (`Date`), in whole seconds; None without it."""


COMPRESSED = Answer(RequestOutcome.FAILED, "the answer is compressed, which was not asked for")


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """The target of requests; it may be shown, its parts may not."""

    url: str = field(repr=False)
    """Without user and password."""
    user: str | None = field(default=None, repr=False)
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def parse_target(text: str, password: str | None = None) -> HttpTarget:
    """Read an `http://` or `https://` URL.

    Args:
        text: The URL; its user and password go into the request's header.
        password: The user's password if the URL has none.

    Raises:
        ConfigError: it is invalid; the message does not quote it, because it may contain a
            password.
    """
    try:
        parts = urlsplit(text)
        host = parts.hostname
        port = parts.port
    except ValueError:
        host = None
        port = None
    if not host or parts.scheme not in {"http", "https"} or port == 0 or not text.isprintable():
        raise ConfigError("not a URL such as https://host:9093")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None:
        netloc += f":{port}"
    url = urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))
    if parts.username is None:
        return HttpTarget(url)
    given = password if parts.password is None else unquote(parts.password)
    return HttpTarget(url, unquote(parts.username), given or "")


def make_client(
    target: HttpTarget, transport: httpx.AsyncBaseTransport | None = None
) -> httpx.AsyncClient:
    """Return a client for a target.

    It follows no redirects: they could send its password elsewhere.
    """
    import httpx  # noqa: PLC0415  a tenth of a second that a watch without an HTTP receiver need not spend

    auth = None if target.user is None else httpx.BasicAuth(target.user, target.password)
    headers = {"User-Agent": "trnfleet", "Accept-Encoding": "identity"}
    return httpx.AsyncClient(
        auth=auth,
        headers=headers,
        timeout=WHOLE_LIMIT_S,
        transport=transport,
        follow_redirects=False,
    )


async def request_json(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    clock: Clock,
    content: Any = None,
    *,
    is_read: bool = False,
) -> Answer:
    """Make a request and return its outcome.

    If the answer is not to be read, only the beginning of a refusal is.

    Args:
        client: The client, made by `make_client`.
        method: Such as `POST`.
        url: Where to.
        clock: The time to go by.
        content: An object to send.
        is_read: Whether the answer is read, as JSON; one above `MOST_BYTES` is a failure.
    """
    import httpx  # noqa: PLC0415  as above; who has a client has loaded it

    answers: list[Answer] = []

    async def send() -> None:
        headers = {}
        body = None
        if content is not None:
            body = json.dumps(content, ensure_ascii=True, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
        async with client.stream(method, url, content=body, headers=headers) as response:
            status = response.status_code
            said = ""
            date_ns = _date_ns(response.headers.get("Date", ""))
            coding = response.headers.get("Content-Encoding", "").strip().lower()
            is_compressed = coding not in {"", "identity"}
            if status < 300 and is_read:
                read = COMPRESSED if is_compressed else await _read_json(response)
                answers.append(read._replace(date_ns=date_ns))
                return
            if status >= 300 and is_compressed:
                said = f"({COMPRESSED.why})"
            elif status >= 300:
                async for chunk in response.aiter_bytes():
                    said = ascii(chunk[:SHOWN_CHARACTERS].decode("utf-8", "replace"))
                    break
        if status < 300:
            answers.append(Answer(RequestOutcome.DONE, date_ns=date_ns))
        elif status < 500 and status not in _RETRIED:
            answers.append(
                Answer(RequestOutcome.REFUSED, f"HTTP {status} {said}".rstrip(), date_ns=date_ns)
            )
        else:
            answers.append(Answer(RequestOutcome.FAILED, f"HTTP {status} {said}".rstrip()))

    try:
        if not await finished_within(send(), clock, WHOLE_LIMIT_S):
            return Answer(RequestOutcome.FAILED, f"no answer within {WHOLE_LIMIT_S:g} s")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        # The text of some of these quotes the URL.
        return Answer(RequestOutcome.FAILED, type(error).__name__)
    finally:
        # Each answer could set other ones, which would all be sent with the next request.
        client.cookies.clear()
    return answers[0]


def _date_ns(text: str) -> int | None:
    try:
        date_ns = round(parsedate_to_datetime(text).timestamp()) * NS_PER_S
    except (TypeError, ValueError, OverflowError):
        return None
    return date_ns if 0 <= date_ns <= LATEST_NS else None


async def _read_json(response: httpx.Response) -> Answer:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MOST_BYTES:
            return Answer(RequestOutcome.FAILED, f"the answer is longer than {MOST_BYTES:,} bytes")
    try:
        return Answer(RequestOutcome.DONE, content=json.loads(body))
    except (ValueError, RecursionError):
        return Answer(RequestOutcome.FAILED, "the answer is not JSON")
