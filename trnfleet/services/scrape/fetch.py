"""A page of metrics by HTTP, within limits of time and bytes.

One connection a page, without redirects. Compressed pages may have as many bytes as others once
they are unpacked.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from typing import TYPE_CHECKING

from trnfleet.errors import TrnfleetError

if TYPE_CHECKING:
    from trnfleet.services.scrape.targets import Target

MOST_BYTES = 16 * 2**20
"""Longest page: 128 processes listing 128 cores each need 6 MB by neuron-monitor-prometheus."""


class FetchError(TrnfleetError):
    """A page could not be read; the message says why, without the target."""


class LongPageError(FetchError):
    """A page is longer than allowed."""


async def fetch(
    target: Target,
    limit_s: float,
    tls: ssl.SSLContext | None = None,
    token: str = "",
    most_bytes: int = MOST_BYTES,
) -> bytes:
    """Return the page of a target.

    Args:
        target: The exporter.
        limit_s: Longest time in all.
        tls: Authorities to verify a target of `https://` with.
        token: Bearer token; empty without one.
        most_bytes: Longest page, also unpacked.

    Raises:
        FetchError: there is no answer, or it is no page.
        LongPageError: it is longer than `most_bytes`.
    """
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(
                target.host, target.port, ssl=(tls or True) if target.is_tls else None
            )
            try:
                writer.write(_request(target, token))
                return await _read_answer(reader, most_bytes)
            finally:
                # A farewell of TLS would be waited for.
                writer.transport.abort()
    except TimeoutError:
        raise FetchError(f"no answer within {limit_s:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise FetchError(f"its certificate is not valid: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise FetchError(f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}") from None
    except asyncio.IncompleteReadError as error:
        raise FetchError(
            "the answer ends early" if error.partial else "the connection ended without an answer"
        ) from None
    except asyncio.LimitOverrunError:
        raise FetchError("the answer is not HTTP") from None
    except OSError as error:
        # asyncio puts other words in place of the system's; a name's errors are negative.
        code = error.errno or 0
        reason = os.strerror(code) if code > 0 else error.strerror or str(error)
        raise FetchError(reason.lower()) from None


def _request(target: Target, token: str) -> bytes:
    lines = [
        f"GET {target.path} HTTP/1.1",
        f"Host: {target.netloc}",
        "User-Agent: trnfleet",
        "Accept: text/plain;version=0.0.4",
        "Accept-Encoding: gzip",
        "Connection: close",
        *([f"Authorization: Bearer {token}"] if token else ()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _read_answer(reader: asyncio.StreamReader, most: int) -> bytes:
    """Return the page of an answer.

    Raises:
        FetchError: it is none, or has another status than 200.
        LongPageError: it is longer than `most` bytes.
        IncompleteReadError: it ends before its end.
    """
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    words = status.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise FetchError("the answer is not HTTP")
    if words[1] != b"200":
        raise FetchError(f"HTTP {words[1].decode()}")
    headers = {
        name.strip().lower(): value.strip().lower()
        for name, _, value in (line.partition(b":") for line in lines)
    }
    if headers.get(b"transfer-encoding", b"identity") != b"identity":
        body = await _read_chunks(reader, most)
    elif b"content-length" in headers:
        body = await reader.readexactly(_length(headers[b"content-length"], 10, most))
    else:
        body = await reader.read(most + 1)
        while not reader.at_eof():
            _check_length(len(body), most)
            body += await reader.read(most + 1)
    coding = headers.get(b"content-encoding", b"identity")
    _check_length(len(body), most)
    if coding in {b"gzip", b"x-gzip"}:
        return _unpacked(body, most)
    if coding != b"identity":
        raise FetchError(f"the answer has an unknown coding, {coding[:20]!r}")
    return body


async def _read_chunks(reader: asyncio.StreamReader, most: int) -> bytes:
    """Return a body in chunks; trailers are not read."""
    body = bytearray()
    while size := _length((await reader.readuntil(b"\r\n")).split(b";")[0].strip(), 16, most):
        _check_length(len(body) + size, most)
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    return bytes(body)


def _length(digits: bytes, base: int, most: int) -> int:
    """Return a number of bytes.

    Raises:
        FetchError: it is none.
        LongPageError: it is above `most`.
    """
    if not digits.isalnum() or len(digits) > 16:
        raise FetchError("the answer has no valid length")
    try:
        size = int(digits, base)
    except ValueError:
        raise FetchError("the answer has no valid length") from None
    _check_length(size, most)
    return size


def _check_length(size: int, most: int) -> None:
    if size > most:
        raise LongPageError(f"the answer is longer than {most:,} bytes")


def _unpacked(body: bytes, most: int) -> bytes:
    """Return a gzip body's text.

    Raises:
        FetchError: it is damaged or cut off.
        LongPageError: it is longer than `most` bytes.
    """
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = unpacker.decompress(body, most + 1)
    except zlib.error:
        raise FetchError("the answer's gzip data are damaged") from None
    _check_length(len(text), most)
    if not unpacker.eof or unpacker.unused_data:
        raise FetchError("the answer's gzip data are cut off or damaged")
    return text
