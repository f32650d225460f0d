from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.errors import ConfigError
from trnfleet.transport.url import BrokerUrl, Password, format_url, parse_url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("mqtt://localhost", BrokerUrl("localhost", 1883)),
        ("mqtt://localhost/", BrokerUrl("localhost", 1883)),
        ("MQTT://Broker.Example:1884", BrokerUrl("broker.example", 1884)),
        ("mqtt://ops@10.0.0.7:1883", BrokerUrl("10.0.0.7", 1883, "ops")),
        ("mqtt://fleet%40site@h", BrokerUrl("h", 1883, "fleet@site")),
        ("mqtt://[::1]:1885", BrokerUrl("::1", 1885)),
        ("mqtt://[fd00:0::1]", BrokerUrl("fd00::1", 1883)),
    ],
)
def test_url_is_read(text: str, url: BrokerUrl) -> None:
    """A broker URL gives host, port and user, with the scheme's port where none is written."""
    assert parse_url(text) == url


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("localhost:1883", "a scheme is missing"),
        ("", "a scheme is missing"),
        ("mqt://h", "did you mean 'mqtt'?"),
        ("mqtts://h", "'mqtts' is not supported yet; supported now: mqtt"),
        ("ws://h", "'ws' is not supported yet"),
        ("wss://h", "'wss' is not supported yet"),
        ("mqtt://", "is not a host"),
        ("mqtt://:1883", "is not a host"),
        ("mqtt://a b", "is not a host"),
        ("mqtt://a\x1b[2J", "not a host"),
        ("mqtt://[::g]", "not"),
        ("mqtt://h:0", "port 0"),
        ("mqtt://h:65536", "port between 1 and 65535"),
        ("mqtt://h:x", "port between 1 and 65535"),
        ("mqtt://h/topic", "nothing may follow the port"),
        ("mqtt://h?x=1", "nothing may follow the port"),
        ("mqtt://@h", "the user before the @"),
        ("mqtt://%00@h", "the user before the @"),
    ],
)
def test_bad_url_is_refused(text: str, words: str) -> None:
    """What is not a usable broker URL is refused in words that say why."""
    with pytest.raises(ConfigError, match=r"^broker ") as error:
        parse_url(text)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "mqtt://ops:hunter2@h",
        "mqtt://ops:hunter2@h:x",
        "mqtts://ops:hunter2@h",
        "ops:hunter2@h",
        "mqtt://ops:a@hunter2@h",
        "mqtt://:hunter2@h",
        "mqtt://ops:hunter2@h/t",
        "mqtt://ops:hunter2@[::g",
    ],
)
def test_password_in_url_is_refused_and_not_repeated(text: str) -> None:
    """A password in the URL is refused without being quoted, in the message or in the chain of errors."""
    with pytest.raises(ConfigError) as error:
        parse_url(text)
    assert "hunter2" not in str(error.value)
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_password_in_url_names_the_ways_that_work() -> None:
    """The refusal of a password names the variable and the option to use instead."""
    with pytest.raises(ConfigError, match=r"TRNFLEET_MQTT_PASSWORD or give --password-file"):
        parse_url("mqtt://ops:@h")


@given(
    host=st.from_regex(r"[a-z0-9][a-z0-9.-]{0,20}", fullmatch=True)
    | st.ip_addresses(v=6).map(lambda each: each.compressed),
    port=st.integers(1, 65535),
    user=st.none() | st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20),
)
def test_format_is_the_inverse_of_parse(host: str, port: int, user: str | None) -> None:
    """Every URL survives being written and read."""
    url = BrokerUrl(host, port, user)
    assert parse_url(format_url(url)) == url


def test_password_hides_itself() -> None:
    """A password shows neither in its representation nor in its text."""
    password = Password("hunter2")
    assert "hunter2" not in f"{password} {password!r} {[password]}"
    assert password.reveal() == "hunter2"
    assert password == Password("hunter2")
    assert password != Password("hunter3")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("0.0.0.0", False),  # noqa: S104  an address to be told apart
        ("h", False),
    ],
)
def test_loopback_is_told_apart(host: str, loopback: bool) -> None:
    """Only addresses that stay on this machine count as loopback."""
    assert BrokerUrl(host).is_loopback is loopback
