"""Ten operators' silences: previewed, applied here and in a real Alertmanager.

Everything else stays audible.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from flow.alerts.test_watch import Scene, alertmanager  # noqa: F401  a fixture
from support.processes.programs import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.processes.alertmanager import AlertmanagerProcess
    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

FLEET = """
name = "demo"
[publish]
format = "cbor"
granularity = "ultraserver"
[[clusters]]
name = "uc1"
ultraservers = [{ count = 2 }]
instances = [{ type = "trn2.48xlarge", count = 16 }]
zone = "us-east-2b"
[[clusters]]
name = "uc2"
ultraservers = [{ count = 1 }]
[[clusters]]
name = "uc3"
ultraservers = [{ count = 1 }]
[[jobs]]
kind = "training"
name = "pretrain-70b"
on = ["uc1/us-0001"]
model = "llama-3.3-70b"
tensor_parallel = 8
pipeline_parallel = 4
sequence_length = 4096
tokens_per_step = 311_296.0
mfu = 0.43
[[blocks]]
on = ["uc1/us-0002"]
days = 28
ends_after_days = 9
"""
RULES = """
[[rules]]
name = "straggler"
scope = "chip"
severity = "critical"
figure = "temperature_c"
above = 1
group = "instance"
summary = "{worst} is at {value}"
[[rules]]
name = "overheated"
scope = "chip"
severity = "warning"
figure = "temperature_c"
above = 1
group = "ultraserver"
summary = "{worst} is at {value}"
[[rules]]
name = "job-slow"
scope = "job"
severity = "info"
figure = "state"
equals = "running"
summary = "{target}"
[[rules]]
name = "block-near-end"
scope = "reservation"
severity = "info"
figure = "state"
equals = "active"
summary = "{target}"
"""
"""Rules firing at once, with names and labels of shipped ones. Targets are 32 instances, 20
UltraServers and standalone instances, a job and a block."""
HOSTS = [f"uc1/standalone/trn2-{number:04d}" for number in range(1, 17)]
US = "uc1/us-0001"
HOST = f"{US}/trn2u-0001-2"

Labels = dict[str, str]


class Silence(NamedTuple):
    """A silence as typed, and the alerts it must mute."""

    what: str
    typed: tuple[str, ...]
    mutes: Callable[[Labels], bool]
    lasts: str = "1h30m"


def silences(block: str) -> list[Silence]:
    return [
        Silence("a rack", (f'rack="{US}/rack-b"',), lambda of: of.get("rack") == f"{US}/rack-b"),
        Silence("a job", ("job=pretrain-70b",), lambda of: of.get("job") == "pretrain-70b"),
        Silence(
            "sixteen hosts",
            (f'instance=~"{"|".join(HOSTS)}"',),
            lambda of: of.get("instance") in HOSTS,
        ),
        Silence(
            "three prefixes",
            ('instance=~"(uc1/us-.*|uc2/.*|uc3/.*)"',),
            lambda of: "/us-" in of.get("instance", ""),
        ),
        Silence(
            "all but critical",
            ('fleet="demo"', 'severity!="critical"'),
            lambda of: of["severity"] != "critical",
        ),
        Silence(
            "an UltraServer without one instance",
            (f'{{ultraserver="{US}", instance!="{HOST}"}}',),
            lambda of: of.get("ultraserver") == US and of.get("instance") != HOST,
        ),
        Silence(
            "a rule on a fleet",
            ("alertname=overheated,fleet=demo",),
            lambda of: of["alertname"] == "overheated",
        ),
        Silence(
            "a name in any case",
            ('alertname=~"(?i)OverHeated"',),
            lambda of: of["alertname"] == "overheated",
        ),
        Silence(
            "an instance for 1d12h",
            (f"instance={HOST}",),
            lambda of: of.get("instance") == HOST,
            lasts="1d12h",
        ),
        Silence(
            "a reservation", (f"reservation={block}",), lambda of: of.get("reservation") == block
        ),
    ]


@pytest.fixture
def scene(mosquitto: MosquittoProcess, tmp_path: Path) -> Iterator[Scene]:
    (tmp_path / "fleet.toml").write_text(FLEET)
    made = Scene(mosquitto, tmp_path, str(tmp_path / "fleet.toml"))
    (tmp_path / "rules.toml").write_text(RULES)
    try:
        yield made
    finally:
        made.end()


def test_ten_silences_mute_the_same_here_and_there(
    scene: Scene,
    alertmanager: AlertmanagerProcess,  # noqa: F811  the fixture
) -> None:
    """Each silence mutes exactly its targets, in `alerts` and in Alertmanager."""
    scene.watch("--alertmanager", alertmanager.url)
    scene.until(lambda: len(alertmanager.alerts()) == 54, 40)
    (block,) = [
        of["reservation"]
        for each in alertmanager.alerts()
        if "reservation" in (of := each["labels"])
    ]
    asked = silences(block)

    def add(silence: Silence) -> Any:
        return run(
            *(
                "silence",
                "add",
                *silence.typed,
                "--for",
                silence.lasts,
                "--why",
                silence.what,
                "--yes",
            ),
            *scene.broker,
        )

    with ThreadPoolExecutor(len(asked)) as pool:
        added = list(pool.map(add, asked))
    assert [(each.returncode, each.stderr.count("\n")) for each in added] == [(0, 1)] * len(asked)
    ids = [each.stdout.split()[1] for each in added]
    scene.until(lambda: len(alertmanager.silences()) == len(asked), 30)
    there = {each["comment"].split()[-2]: each for each in alertmanager.silences()}
    scene.until(
        lambda: sum(bool(each["status"]["silencedBy"]) for each in alertmanager.alerts()) > 30
    )
    listed = json.loads(run("alerts", "--json", *scene.broker).stdout)["alerts"]
    assert len(listed) == len(alertmanager.alerts()) == 54

    table = []
    for silence, text, own in zip(asked, added, ids, strict=True):
        here = {(each["rule"], each["target"]) for each in listed if own in each["silences"]}
        muted = {
            (each["labels"]["alertname"], each["labels"]["target"])
            for each in alertmanager.alerts()
            if there[own]["id"] in each["status"]["silencedBy"]
        }
        wanted = {
            (each["rule"], each["target"]) for each in listed if silence.mutes(each["labels"])
        }
        assert here == muted == wanted, silence.what
        preview = text.stdout.partition(" matches ")[2].partition(" firing")[0]
        assert preview == str(len(wanted))
        table.append(
            (silence.what, preview, len(here), len(muted), 54 - len(muted), " ".join(silence.typed))
        )
    ends = there[ids[8]]
    lasts = datetime.fromisoformat(ends["endsAt"]) - datetime.fromisoformat(ends["startsAt"])
    assert abs(lasts - timedelta(days=1, hours=12)) < timedelta(minutes=5)

    heads = ("silence", "preview", "muted here", "in Alertmanager", "audible", "typed")
    for row in [heads, *table]:
        print("{:36} {:>8} {:>10} {:>16} {:>8}   {}".format(*row))  # noqa: T201  for people: -s shows it
    assert [row[4] for row in table] == [52, 48, 22, 38, 32, 50, 34, 34, 53, 53]
