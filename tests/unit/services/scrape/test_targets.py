"""Targets by command line, list and file_sd."""

from __future__ import annotations

import json
import re

import pytest

from trnfleet.errors import ConfigError
from trnfleet.services.scrape.targets import join_targets, parse_target, parse_targets

ADDRESS = "uc1/standalone/x"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("trn2-0001", "http://trn2-0001:8000/metrics"),
        ("10.0.0.3:7001", "http://10.0.0.3:7001/metrics"),
        ("[fd00::3]:7001", "http://[fd00::3]:7001/metrics"),
        ("http://trn2-0001/metrics", "http://trn2-0001:80/metrics"),
        ("https://trn2-0001/federate?match[]=x", "https://trn2-0001:443/federate?match[]=x"),
    ],
)
def test_a_target_is_a_host_or_a_url(text: str, url: str) -> None:
    assert parse_target(text).url == url


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not HOST"),
        ("a b", "not HOST"),
        ("ftp://x", "not HOST"),
        ("x:99999", "port '99999' is not a number from 1 to 65535; choose one, as x:8000"),
        ("x:0", "port '0' is not a number"),
        ("x:80a", "port '80a' is not a number"),
        ("[fd00::3]:0", "as [fd00::3]:8000"),
        ("fd00::3", "an IPv6 address is in brackets, as [fd00::3]:8000"),
        ("::1", "as [::1]:8000"),
        ("http://fd00::3/metrics", "as [fd00::3]:8000"),
        ("trn2..example", "not HOST"),
        (f"{'x' * 64}.example", "not HOST"),
        ("\u00fcber", "not ASCII"),
        ("x/\n", "not HOST"),
        ("http://me:secret@x", "use --target-token-file"),
        ("me:secret@x:0", "use --target-token-file"),
    ],
)
def test_what_is_no_target_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)) as refused:
        parse_target(text)
    assert "secret" not in str(refused.value)


def test_a_list_and_file_sd_have_addresses() -> None:
    listed = parse_targets(f"# all\n\ntrn2-0001  # the first\n10.0.0.3:7001 address={ADDRESS}\n")
    groups = [
        {"targets": ["trn2-0001:8000"], "labels": {"job": "neuron"}},
        {"targets": ["10.0.0.3:7001"], "labels": {"address": ADDRESS}},
    ]
    assert parse_targets(json.dumps(groups)) == listed
    assert [target.address for target in listed] == [None, ADDRESS]
    labels = {"__scheme__": "https", "__metrics_path__": "/m"}
    (target,) = parse_targets(json.dumps([{"targets": ["a:1"], "labels": labels}]))
    assert target.url == "https://a:1/m"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\nb c=d\n", "line 2: 'c=d' behind 'b' is not address=uc1/standalone/HOST"),
        ("a\nb ; the second\n", "line 2: ';' behind 'b' is not address=uc1/standalone/HOST; a"),
        ("a\n\nftp://x\n", "line 3: target 'ftp://x'"),
        ("a address=uc1/x\n", "line 1: address 'uc1/x' has 2 segments"),
        ("[", "not JSON"),
        ('[{"targets": ["a"]}, 5]', "group 2: not an object"),
        ('{"targets": "a"}', "group 1: not an object"),
        ('[{"targets": ["a", "b"], "labels": {"address": "x"}}]', "a group of one target"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)):
        parse_targets(text)


def test_a_list_may_begin_with_an_ipv6_address() -> None:
    assert [target.host for target in parse_targets("[fd00::3]:7001\n[::1]\n")] == [
        "fd00::3",
        "::1",
    ]


def test_a_target_named_twice_is_one() -> None:
    a = parse_target("a")
    b = parse_target("b", ADDRESS)
    assert list(join_targets([a, b, a]).values()) == [a, b]
    with pytest.raises(ConfigError, match=f"have the same address {ADDRESS}"):
        join_targets([b, parse_target("c", ADDRESS)])
