"""Pages by HTTP from real servers."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from typing import TYPE_CHECKING

import pytest
from support.exporter import OK, answer, serve
from support.processes.mosquitto import free_port

from trnfleet.services.scrape.fetch import MOST_BYTES, FetchError, fetch
from trnfleet.services.scrape.scraper import make_context
from trnfleet.services.scrape.targets import parse_target

if TYPE_CHECKING:
    from support.processes.certificates import Certificates

PAGE = b"system_vcpu_count 192.0\n" * 10_000
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PACKED = OK + b"content-encoding: gzip\r\n\r\n"


async def page_of(told: bytes | None, limit_s: float = 20.0) -> bytes:
    async with await serve(lambda _: told) as server:
        port = server.sockets[0].getsockname()[1]
        return await fetch(parse_target(f"127.0.0.1:{port}"), limit_s)


@pytest.mark.parametrize(
    "told",
    [
        answer(PAGE),
        OK + b"\r\n" + PAGE,
        b"HTTP/1.0 200 fine\r\n\r\n" + PAGE,
        CHUNKED
        + b"3e8\r\n"
        + PAGE[:1_000]
        + b"\r\n%x;a=b\r\n" % len(PAGE[1_000:])
        + PAGE[1_000:]
        + b"\r\n0\r\n\r\n",
        PACKED + gzip.compress(PAGE),
    ],
    ids=["length", "end", "old", "chunks", "gzip"],
)
async def test_a_page_is_read_in_each_form(told: bytes) -> None:
    assert await page_of(told) == PAGE


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (b"", "the connection ended without an answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "the answer is not HTTP"),
        (b"x" * 2**21, "the answer is not HTTP"),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", "HTTP 500"),
        (b"HTTP/1.1 301 Moved\r\nLocation: http://elsewhere/\r\n\r\n", "HTTP 301"),
        (OK + b"Content-Length: 99\r\n\r\nx", "the answer ends early"),
        (OK + b"Content-Length: -1\r\n\r\nx", "the answer has no valid length"),
        (OK + b"Content-Length: %d\r\n\r\n" % (MOST_BYTES + 1), "longer than 16,777,216 bytes"),
        (CHUNKED + b"ff\r\nx", "the answer ends early"),
        (CHUNKED + b"zz\r\nx", "the answer has no valid length"),
        (
            CHUNKED + b"ffffff\r\n" + b"x" * (2**24 - 1) + b"\r\n2\r\n",
            "longer than 16,777,216 bytes",
        ),
        (OK + b"\r\n" + b"x" * (MOST_BYTES + 1), "longer than 16,777,216 bytes"),
        (PACKED + gzip.compress(bytes(MOST_BYTES + 1)), "longer than 16,777,216 bytes"),
        (PACKED + gzip.compress(PAGE)[:-9], "gzip data are cut off"),
        (PACKED + PAGE, "gzip data are damaged"),
        (OK + b"Content-Encoding: br\r\n\r\n", "unknown coding, b'br'"),
    ],
)
async def test_what_is_no_page_has_a_reason(told: bytes, reason: str) -> None:
    with pytest.raises(FetchError, match=reason):
        await page_of(told)


async def test_silence_and_refusal_are_told_apart() -> None:
    with pytest.raises(FetchError, match=r"no answer within 0\.1 s"):
        await page_of(None, 0.1)
    with pytest.raises(FetchError, match="connection refused"):
        await fetch(parse_target(f"127.0.0.1:{free_port()}"), 20.0)
    with pytest.raises(FetchError, match="name"):
        await fetch(parse_target("host.invalid"), 20.0)


async def test_tls_is_verified_and_gets_the_token(certificates: Certificates) -> None:
    heads: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer(PAGE))
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.pem("server"), certificates.key("server"))
    async with await asyncio.start_server(talk, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        target = parse_target(f"https://127.0.0.1:{port}")
        trusted = make_context(certificates.pem("ca"))
        assert await fetch(target, 20.0, trusted, "secret") == PAGE
        with pytest.raises(FetchError, match="its certificate is not valid: "):
            await fetch(target, 20.0, make_context(None))
        with pytest.raises(FetchError, match="its certificate is not valid: "):
            await fetch(target, 20.0, None, "secret")
    assert len(heads) == 1
    assert b"\r\nAuthorization: Bearer secret\r\n" in heads[0]
