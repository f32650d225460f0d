from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnfleet.errors import ConfigError
from trnfleet.transport.url import BrokerUrl, Password, format_url, parse_url, with_user


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
        ("mqtts://h", BrokerUrl("h", 8883, scheme="mqtts")),
        ("ws://h", BrokerUrl("h", 80, scheme="ws", path="/mqtt")),
        ("ws://h:9001/", BrokerUrl("h", 9001, scheme="ws", path="/")),
        ("wss://ops@h/a/b", BrokerUrl("h", 443, "ops", "wss", "/a/b")),
        ("tcp://h", BrokerUrl("h", 1883)),
        ("ssl://h", BrokerUrl("h", 8883, scheme="mqtts")),
        ("tls://h:1", BrokerUrl("h", 1, scheme="mqtts")),
        ("localhost:1883", BrokerUrl("localhost", 1883)),
        ("localhost", BrokerUrl("localhost", 1883)),
        ("ops@10.0.0.7:1884", BrokerUrl("10.0.0.7", 1884, "ops")),
        ("[::1]:1885", BrokerUrl("::1", 1885)),
    ],
)
def test_url_is_read(text: str, url: BrokerUrl) -> None:
    """A URL has scheme, host, port, path and user.

    The scheme sets default port and path.
    """
    assert parse_url(text) == url


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a host"),
        ("mqt://h", "did you mean 'mqtt'?"),
        ("https://h", "'https' is not MQTT; a websocket is written wss://host:port/path"),
        (
            "ops@h:8883",
            "port 8883 is usually that of TLS; write mqtts://ops@h:8883, or mqtt://ops@h:8883",
        ),
        ("mqtts://h/mqtt", "nothing may follow the port of mqtts"),
        ("ws://h/mqtt?token=1", "'ws://h/mqtt?***': nothing may follow the path"),
        (
            "wss://ops:1234/pw@h/mqtt",
            "'wss://ops:***@h/mqtt': write an @ in the path as %40; a password must not",
        ),
        ("ws://h/\u00e9", "printable ASCII"),
        ("mqtt://", "is not a host"),
        ("mqtt://:1883", "is not a host"),
        ("mqtt://a b", "is not a host"),
        ("mqtt://a\x1b[2J", "not a host"),
        ("mqtt://[::g]", "not"),
        ("mqtt://h:0", "port must be 1 to 65535"),
        ("mqtt://h:65536", "port between 1 and 65535"),
        ("mqtt://h:x", "port between 1 and 65535"),
        ("mqtt://h/topic", "nothing may follow the port"),
        ("mqtt://h?x=1", "nothing may follow the port"),
        ("1883", "'1883' is a port; write the host, too, as in 127.0.0.1:1883"),
        ("mqtt://10.0.7", "'10.0.7' is not an address"),
        ("0x7f000001", "'0x7f000001' is not an address"),
        ("mqtt://@h", "the user before the @"),
        ("mqtt://%00@h", "the user before the @"),
    ],
)
def test_bad_url_is_refused(text: str, words: str) -> None:
    """An unusable broker URL is refused with the reason."""
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
    """A password in the URL is refused and never quoted.

    Neither in the message nor in its chain of causes.
    """
    with pytest.raises(ConfigError) as error:
        parse_url(text)
    assert "hunter2" not in str(error.value)
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_password_in_url_names_the_ways_that_work() -> None:
    """The refusal of a password names the variable and the option to use instead."""
    with pytest.raises(ConfigError, match=r"TRNFLEET_MQTT_PASSWORD or give --password-file"):
        parse_url("mqtt://ops:@h")


@given(
    host=st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)
    | st.ip_addresses(v=4).map(str)
    | st.ip_addresses(v=6).map(lambda each: each.compressed),
    port=st.integers(1, 65535),
    user=st.none()
    | st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20),
    scheme=st.sampled_from(["mqtt", "mqtts", "ws", "wss"]),
)
def test_format_is_the_inverse_of_parse(
    host: str, port: int, user: str | None, scheme: str
) -> None:
    """Every URL survives being written and read."""
    url = BrokerUrl(host, port, user).spoken(scheme)
    assert parse_url(format_url(url)) == url


def test_a_user_is_put_into_a_url_that_has_none() -> None:
    """Two names for one user contradict, and an unprintable name is invalid."""
    url = BrokerUrl("h")
    assert (
        with_user(url, "ops")
        == with_user(with_user(url, "ops"), "ops")
        == BrokerUrl("h", user="ops")
    )
    with pytest.raises(ConfigError, match="the broker's URL has another user, 'ann'"):
        with_user(BrokerUrl("h", user="ann"), "ops")
    with pytest.raises(ConfigError, match="not printable"):
        with_user(url, "a\x1b")


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
    """Only addresses on this machine count as loopback."""
    assert BrokerUrl(host).is_loopback is loopback
