"""Files of the Neuron tools as converted, replayed and checked by a user.

Also a simulated host's way there and back.
"""

from __future__ import annotations

import gzip
import json
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.monitor.feed import Feed, SilentSource, ultraservers
from support.paths import FIXTURES

from trnfleet.bridge.neuron.stream import MOST_DOCUMENT_BYTES
from trnfleet.cli import main
from trnfleet.clock import NS_PER_S, ManualClock, parse_rfc3339
from trnfleet.domain.metrics import BY_NAME, METRICS, Origin, Scope
from trnfleet.domain.reservations.states import ReservationState
from trnfleet.monitor.monitor import Monitor
from trnfleet.record.format.metadata import About
from trnfleet.record.read.recording import Recording
from trnfleet.record.write.writer import RecordingWriter
from trnfleet.wire.messages import message_envelope
from trnfleet.wire.reservations import ReservationMessage
from trnfleet.wire.topics import TopicClass, build_topic

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from trnfleet.wire.ports import Stored

FOLDER = FIXTURES / "neuron-monitor"
START = "2026-01-05T09:00:00Z"
GIB = 2**30
FLEET = """
name = "small"
start = 2026-01-05T09:00:00Z
[publish]
format = "cbor"
granularity = "instance"
[[clusters]]
name = "uc1"
ultraservers = [{ count = 1 }]
instances = [{ type = "trn2.48xlarge", count = 1 }]
[[jobs]]
kind = "training"
name = "train"
on = ["uc1/us-0001"]
model = "llama-3.1-8b"
tensor_parallel = 16
pipeline_parallel = 1
sequence_length = 4096
tokens_per_step = 262_144.0
mfu = 0.38
hbm_used = 0.6
"""


def trnfleet(*arguments: str | Path, status: int = 0) -> None:
    assert main.run([str(each) for each in arguments]) == status


def messages(path: Path) -> list[Stored]:
    recording = Recording.open([path])
    try:
        return list(recording.read(recording.start_ns - 1, recording.end_ns))
    finally:
        recording.close()


def ticks(path: Path, fleet: str, instance: str) -> list[dict[str, NDArray[np.float64]]]:
    """Return an instance's values at each tick of a recording, as a monitor has them."""
    monitor = Monitor(SilentSource(), fleet, clock=ManualClock(0, 1_000.0))
    seen: list[dict[str, NDArray[np.float64]]] = []
    last_ns = -1
    for each in messages(path):
        monitor.apply([each.envelope._replace(received_s=1_000.0)])
        monitor.compute()
        if f"/telemetry/{instance}" not in each.envelope.topic:
            continue
        number = monitor.store.layout.instances.index(instance)
        chips = monitor.store.layout.chip_start
        rows = slice(int(chips[number]), int(chips[number + 1]))
        values = {
            metric.name: metric.decode(
                monitor.store.columns[metric.name][
                    rows if metric.scope is Scope.CHIP else slice(number, number + 1)
                ]
            )
            for metric in METRICS
        }
        if each.time_ns != last_ns:
            seen.append(values)
        seen[-1], last_ns = values, each.time_ns
    return seen


def carried() -> list[str]:
    """Return the metrics that neuron-monitor has."""
    return [
        metric.name
        for metric in METRICS
        if metric.real_host is Origin.MEASURED and "neuron-monitor" in metric.real_source
    ]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a training UltraServer and of an idle instance."""
    folder = tmp_path_factory.mktemp("simulated")
    (folder / "small.toml").write_text(FLEET)
    trnfleet(
        "simulate", "--fleet", folder / "small.toml", "--record", folder / "a.mcap", "--ticks", "12"
    )
    return folder / "a.mcap"


@pytest.mark.parametrize("instance", ["uc1/us-0001/trn2u-0001-2", "uc1/standalone/trn2-0001"])
def test_a_simulated_host_comes_back_from_its_documents(
    tmp_path: Path, simulated: Path, instance: str
) -> None:
    """Every metric of neuron-monitor is the same at every tick.

    Counters are their growth.
    """
    host = tmp_path / "host.ndjson"
    trnfleet("convert", simulated, host, "--to", "neuron-monitor", "--instance", instance)
    lines = host.read_text().splitlines()
    trnfleet("convert", host, tmp_path / "b.mcap", "--start", START, "--as", instance)

    before = ticks(simulated, "small", instance)
    after = ticks(tmp_path / "b.mcap", "neuron", instance)

    processes = [len(json.loads(line)["neuron_runtime_data"]) for line in lines]
    is_idle = "standalone" in instance
    assert processes == [0 if is_idle else 1] * 12
    assert len(before) == len(after) == 12
    for name in carried():
        metric = BY_NAME[name]
        for old, new in zip(before, after, strict=True):
            expected = old[name]
            if name in {"exec_completed", "exec_errors"}:
                # A document begins in the middle of things: what was done before is not known.
                expected = expected - before[0][name]
            elif is_idle and name == "hbm_used_bytes":
                # What the driver keeps is no process's.
                assert (expected < GIB).all()
                expected = np.zeros(16)
            assert np.allclose(
                new[name], expected, rtol=0, atol=metric.scale / 2, equal_nan=True
            ), name
    for name in ("nc_util_pct", "tflops", "exec_completed", "exec_latency_p99_s", "hbm_used_bytes"):
        assert bool(np.nan_to_num(after[-1][name]).any()) is not is_idle, name


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        (("uc1/us-0001",), "us-east-2b"),
        (("uc1/us-0009", "uc1/us-0001..us-0003"), "us-east-2b"),
        (("uc1/us-0001/trn2u-0001-0..trn2u-0001-1",), "us-east-2b"),
        (("uc1/us-0001/trn2u-0001-2..trn2u-0001-3",), ""),
        (("uc2",), ""),
        ((), ""),
    ],
)
def test_the_zone_is_that_of_the_reservation(
    tmp_path: Path, on: tuple[str, ...], expected: str
) -> None:
    """By the subtrees and ranges that it holds."""
    feed = Feed(ultraservers(1))
    taken = [*feed.announcements(), *feed.telemetry(ts_ns=parse_rfc3339(START))]
    message = ReservationMessage(
        id="cr-0123456789abcdef0",
        state=ReservationState.ACTIVE,
        ts=START,
        instance_type="trn2u.48xlarge",
        zone="us-east-2b",
        instances=4,
        created=START,
        start=START,
        on=on,
    )
    topic = build_topic(feed.fleet, TopicClass.RESERVATION, message.id)
    writer = RecordingWriter(tmp_path / "a.mcap", About(id="r", fleets=(feed.fleet,)))
    for number, each in enumerate([message_envelope(topic, message, retain=True), *taken]):
        writer.write(parse_rfc3339(START) + number, each)
    writer.close()

    host = tmp_path / "host.ndjson"
    trnfleet(
        "convert",
        tmp_path / "a.mcap",
        host,
        "--to",
        "neuron-monitor",
        "--instance",
        "uc1/us-0001/trn2u-0001-1",
    )

    (line,) = host.read_text().splitlines()
    told = json.loads(line)["instance_info"]
    assert told["instance_availability_zone"] == expected
    assert told["instance_region"] == expected.rstrip("b")


def test_a_containers_file_is_shown_where_its_devices_are(tmp_path: Path) -> None:
    """With neuron-ls's list device 0 is chip 13."""
    trnfleet(
        "convert",
        FOLDER / "trn2.48xlarge-container.ndjson",
        tmp_path / "a.mcap",
        "--start",
        START,
        "--neuron-ls",
        FOLDER / "neuron-ls.container.json",
    )

    (seen,) = ticks(tmp_path / "a.mcap", "neuron", "uc1/standalone/i-00000000000000077")

    assert np.flatnonzero(~np.isnan(seen["hbm_used_bytes"])).tolist() == [9, 13]


def test_replay_takes_neuron_ls_too(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Each chip is a line; chips unknown to the container have null."""
    container = FOLDER / "trn2.48xlarge-container.ndjson"
    trnfleet("replay", container, "--stdout", "--neuron-ls", FOLDER / "neuron-ls.container.json")

    lines = [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]
    known = {line["chip"] for line in lines if line.get("tflops") is not None}
    assert known == {9, 13}

    trnfleet(
        "replay",
        FIXTURES / "mosquitto" / "payload-text.ndjson",
        "--stdout",
        "--neuron-ls",
        container,
        status=2,
    )
    assert b"--neuron-ls is for files of neuron-monitor; " in capsysbinary.readouterr().err
    lines_of_mosquitto = FIXTURES / "mosquitto" / "payload-text.ndjson"
    trnfleet("replay", lines_of_mosquitto, "--stdout", "--utilization", "ratio", status=2)
    assert b"--utilization is for files of neuron-monitor; " in capsysbinary.readouterr().err


def test_a_scrape_is_shown_as_a_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without timestamps it was taken at the file's date, unless it is told."""
    scrape = tmp_path / "host.prom"
    scrape.write_bytes((FOLDER / "exporter.prom").read_bytes())
    os.utime(scrape, ns=(0, parse_rfc3339(START)))
    host = "uc1/standalone/i-00000000000000088"

    trnfleet("convert", scrape, tmp_path / "a.mcap")
    assert (
        "it has no timestamps: taken at 2026-01-05T09:00:00.000Z, the file's date"
        in capsys.readouterr().err
    )
    (seen,) = ticks(tmp_path / "a.mcap", "neuron", host)
    assert seen["nc_util_pct"][0, :2].tolist() == [50, 25]
    assert messages(tmp_path / "a.mcap")[-1].time_ns == parse_rfc3339(START)

    trnfleet(
        "convert", scrape, tmp_path / "b.mcap", "--start", "2026-01-06T00:00:00Z", "--name", "lab"
    )
    assert messages(tmp_path / "b.mcap")[-1].time_ns == parse_rfc3339("2026-01-06T00:00:00Z")


def test_scrapes_of_several_hosts_are_a_fleet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each host has its own times, and its counters' growth."""
    several = FOLDER / "exporter-scrapes.prom"
    trnfleet("convert", several, tmp_path / "a.mcap")
    told = capsys.readouterr().err
    small = ticks(tmp_path / "a.mcap", "neuron", "uc1/standalone/i-00000000000000088")
    large = ticks(tmp_path / "a.mcap", "neuron", "uc1/standalone/i-00000000000000099")

    assert "begins at 2026-01-05T00:00:00.000Z" in told
    assert "5 scrapes;" in told
    assert [each["exec_completed"][0] for each in small] == [500, 620, 720]
    assert [each["exec_completed"][0] for each in large] == [40, 90]
    times = [each.time_ns for each in messages(tmp_path / "a.mcap")]
    assert times == sorted(times)
    assert times[-1] - times[0] == 30.4 * NS_PER_S

    trnfleet("convert", several, tmp_path / "b.mcap", "--as", "uc1/standalone/one")
    assert "3 scrapes, 2 left out (first line" in (told := capsys.readouterr().err)
    assert "a second host, i-00000000000000099: an address is for a file of one" in told


def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unusable files are named in one line.

    neuron-ls's list as a recording, an invalid list, and an unknown generation.
    """
    out = tmp_path / "a.mcap"
    host = FOLDER / "trn2.48xlarge-container.ndjson"
    for arguments, expected in (
        (
            (FOLDER / "neuron-ls.container.json", out),
            "it is what neuron-ls -j prints, where devices are and no telemetry",
        ),
        (
            (host, out, "--neuron-ls", host),
            "not what neuron-ls prints: no array of objects with neuron_device",
        ),
        ((host, out, "--neuron-ls", tmp_path / "none"), "none: No such file or directory"),
        (
            (FIXTURES / "mosquitto" / "payload-text.ndjson", out, "--neuron-ls", host),
            "--neuron-ls is for neuron-monitor alone",
        ),
        (
            (FOLDER / "inf1.xlarge-indented.json", out),
            "is of a generation that trnfleet does not know, inf1: it knows",
        ),
    ):
        trnfleet("convert", *arguments, status=2)
        told = capsys.readouterr().err
        assert expected in told
        assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_a_sequence_of_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], indent: int | None
) -> None:
    """Arrays of `jq -s` are read.

    One too long for a line is reported so.
    """
    documents = [
        json.loads(line) for line in (FOLDER / "generic-total.ndjson").read_text().splitlines()
    ]
    array = tmp_path / "array.json"
    array.write_text(json.dumps(documents, indent=indent))

    trnfleet("convert", array, tmp_path / "a.mcap", "--start", START)

    assert "array.json: 3 documents; " in capsys.readouterr().err
    assert len(ticks(tmp_path / "a.mcap", "neuron", "uc1/standalone/i-00000000000000011")) == 3
    if indent is None:
        array.write_text(
            json.dumps(documents * (MOST_DOCUMENT_BYTES // len(json.dumps(documents)) + 1))
        )
        trnfleet("check", array, status=2)
        assert "no neuron-monitor; line 1: longer than 16777216 bytes" in capsys.readouterr().out


def test_bad_documents_end_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A document of an unknown type at the start is left out and named."""
    mixed = tmp_path / "mixed.ndjson"
    mixed.write_bytes(
        (FOLDER / "inf1.xlarge-indented.json").read_bytes()
        + b'{"cut": [\n'
        + (FOLDER / "generic-total.ndjson").read_bytes()
    )

    trnfleet("convert", mixed, tmp_path / "a.mcap", "--start", START)

    assert (
        "3 documents, 2 left out (first line 1: instance type 'inf1.xlarge' is of"
        in capsys.readouterr().err
    )
    assert len(ticks(tmp_path / "a.mcap", "neuron", "uc1/standalone/i-00000000000000011")) == 3


def test_a_containers_log_has_its_own_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Packed, with lines of stderr and a document that the log has lost its time of."""
    documents = (FOLDER / "generic-total.ndjson").read_text().splitlines()
    log = tmp_path / "pod.log.gz"
    lines = [
        f"2026-01-05T09:00:00.5Z stdout F {documents[0]}",
        "2026-01-05T09:00:00.6Z stderr F a warning",
        documents[1],
        f"2026-01-05T09:10:00Z stdout F {documents[2]}",
    ]
    log.write_bytes(gzip.compress("\n".join(lines).encode()))

    trnfleet("check", log)
    trnfleet("convert", log, tmp_path / "a.mcap")
    trnfleet("convert", log, tmp_path / "b.mcap", "--start", START)

    told = capsys.readouterr()
    assert (
        "valid (neuron-monitor (gzip, lines of a container runtime's log, 1 line of stderr):"
        in told.out
    )
    assert ": 3 documents, begins at 2026-01-05T08:59:55.5" in told.out
    first_ns = parse_rfc3339("2026-01-05T09:00:00.5Z")
    seconds = [
        [(each.time_ns - first_ns) / NS_PER_S for each in messages(tmp_path / name)]
        for name in ("a.mcap", "b.mcap")
    ]
    assert sorted(set(seconds[0])) == [0, 5, 599.5]
    assert sorted(set(seconds[1])) == [4.5, 9.5, 604]


def test_neuron_observers_text_is_read_in_its_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` names the unit and what is not read; the option decides."""
    text = tmp_path / "observer.prom"
    labels = 'neuron_device_index="0",neuroncore="1"'
    text.write_text(
        'neuron_system_info{instance_type="trn1.2xlarge",instance_name="node-1"} 1\n'
        f"neuron_core_utilization{{{labels}}} 0.5\nneuron_core_cc_time_total{{{labels}}} 4\n"
        f"neuron_core_utilization{{{labels.replace('1', '0')}}} 1.75\n"
    )
    for arguments, unit in (
        ((), "percent: 1.75 on line 4"),
        (("--utilization", "ratio"), "a ratio: as given"),
    ):
        trnfleet("check", text, *arguments, status=2 if arguments else 0)
        said = capsys.readouterr().out
        assert f"prometheus (utilization is {unit}): 1 scrape" in said
        assert ("must be a number from 0 to 101, not 175" in said) == bool(arguments)
        assert "; 1 series not read: neuron_core_cc_time_total (1)" in said

        trnfleet("convert", text, tmp_path / f"{len(arguments)}.mcap", *arguments)
        assert "1 series not read: neuron_core_cc_time_total (1)\n" in capsys.readouterr().err
        (seen,) = ticks(tmp_path / f"{len(arguments)}.mcap", "neuron", "uc1/standalone/node-1")
        assert seen["nc_util_pct"][0, 1] == (50 if arguments else 0.5)


def test_a_packed_file_that_is_cut_is_read_up_to_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the cut is named."""
    for name in ("generic-total.ndjson", "exporter-scrapes.prom"):
        packed = gzip.compress((FOLDER / name).read_bytes())
        (tmp_path / name).write_bytes(packed[:-20])
        trnfleet("check", tmp_path / name, status=2)
        assert "left out (first " in (told := capsys.readouterr().out)
        assert "(gzip): " in told


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("exporter-scrapes.prom", "prometheus: 5 scrapes, begins at 2026-01-05T00:00:00.000Z"),
        ("trn2.48xlarge-indented.json", "neuron-monitor (indented): 2 documents"),
        ("neuron-ls.trn2.48xlarge.json", "devices of neuron-ls, 16 of them"),
    ],
)
def test_check_knows_the_tools_files(
    name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By their content."""
    trnfleet("check", FOLDER / name)
    assert f"valid ({said})" in capsys.readouterr().out
