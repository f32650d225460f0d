"""Text of neuron-monitor-prometheus, read as documents."""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.exporter import exporter_page
from support.paths import FIXTURES

from trnfleet.bridge.neuron.host_reader import EXPORTER, HostReader
from trnfleet.bridge.neuron.scrapes import (
    MOST_ENDED,
    MOST_LINES,
    UNDATED,
    Scrape,
    Scrapes,
    parse_sample,
)
from trnfleet.domain.metrics import BY_NAME
from trnfleet.errors import ConfigError, WireError
from trnfleet.wire.ndjson import LeftOut, TextFile

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray


GIB = 2**30
FOLDER = FIXTURES / "neuron-monitor"
ONE = (FOLDER / "exporter.prom").read_text()
SEVERAL = (FOLDER / "exporter-scrapes.prom").read_text()
SMALL = "i-00000000000000088"
LARGE = "i-00000000000000099"
START_MS = 1_767_571_200_000


def scrapes(text: str) -> tuple[list[Scrape], LeftOut]:
    left_out = LeftOut()
    return list(Scrapes(left_out).read(TextFile(io.BytesIO(text.encode())))), left_out


def values(reader: HostReader, scrape: Scrape) -> dict[str, NDArray[np.float64]]:
    reader.read_parsed(scrape.document)
    return {name: BY_NAME[name].decode(codes) for name, codes in reader.columns.items()}


def test_a_scrape_is_read_as_a_document() -> None:
    """Ratios become percent and labels the instance's.

    Values missing in the exporter are not available.
    """
    (scrape,), left_out = scrapes(ONE)
    reader = HostReader()

    read = values(reader, scrape)

    assert left_out.count == 0
    assert (scrape.host, scrape.ts_ns, scrape.line) == (SMALL, None, 7)
    assert (reader.kind.name, reader.ec2_id, reader.lnc) == ("trn1.2xlarge", SMALL, 1)
    assert read["nc_util_pct"][0, :2].tolist() == [50, 25]
    assert read["hbm_used_bytes"][0] == 6 * GIB
    assert (read["exec_completed"][0], read["exec_errors"][0]) == (500, 5)
    assert (read["exec_latency_p50_s"][0], read["exec_latency_p99_s"][0]) == (0.02, 0.04)
    assert read["mem_ecc_corrected"][0] == 7
    assert read["vcpu_util_pct"][0] == 30
    assert read["host_memory_used_bytes"][0] == 8 * GIB
    assert np.isnan(read["tflops"][0])


def test_scrapes_with_timestamps_are_those_of_each_host() -> None:
    """Counters continue over scrapes, and restart with the exporter.

    No count is lost or counted twice.
    """
    told, left_out = scrapes(SEVERAL)
    readers = {SMALL: HostReader(), LARGE: HostReader()}

    seen: dict[str, list[tuple[float, ...]]] = {SMALL: [], LARGE: []}
    for scrape in sorted(told, key=lambda each: each.ts_ns or 0):
        read = values(readers[scrape.host], scrape)
        seen[scrape.host].append(
            tuple(
                float(read[name][0])
                for name in ("exec_completed", "exec_errors", "mem_ecc_corrected")
            )
        )

    assert left_out.count == 0
    assert [(each.ts_ns or 0) // 10**6 - START_MS for each in told if each.host == SMALL] == [
        0,
        15_000,
        30_000,
    ]
    assert seen[SMALL] == [(500, 5, 7), (620, 6, 9), (720, 7, 9)]
    assert seen[LARGE] == [(40, 0, 0), (90, 0, 0)]
    assert readers[LARGE].kind.name == "trn2.3xlarge"


def test_a_federated_text_mixes_hosts() -> None:
    """Prometheus writes it metric by metric; each host's samples are put together again."""
    lines = [line for line in SEVERAL.splitlines() if not line.startswith("#")]
    first = [line for line in lines if line.endswith((f" {START_MS}", f" {START_MS + 400}"))]

    told, left_out = scrapes("\n".join(sorted(first)) + "\n")

    assert left_out.count == 0
    assert sorted(each.host for each in told) == [SMALL, LARGE]
    assert values(HostReader(), told[0])["nc_util_pct"][0, 0] in {50, 100}


def test_further_scrapes_without_timestamps_are_left_out() -> None:
    """When they were taken is not known: the first is read, the others are counted."""
    told, left_out = scrapes(ONE + ONE.replace(" 500.0", " 900.0") + ONE)

    assert [values(HostReader(), each)["exec_completed"][0] for each in told] == [500]
    assert (left_out.count, left_out.first) == (2, f"line {ONE.count(chr(10)) + 7}: {UNDATED}")


def test_damaged_lines_are_counted_and_end_nothing() -> None:
    """Each is named by its line and metric, and the rest is read."""
    lines = ONE.splitlines()
    place = next(
        number
        for number, line in enumerate(lines)
        if line.startswith("neuroncore_utilization_ratio{")
    )
    lines[place] = lines[place].replace(" 0.5", " half")
    lines.insert(3, "\x00\x01")
    lines.append("execution_status_total{status_type=completed} 5")
    lines.append("system_memory_used_bytes{instance_id=" + f'"{SMALL}"' + "} 5 -99")
    lines.append("x" * 70_000)

    told, left_out = scrapes("\n".join(lines))

    read = values(HostReader(), told[0])
    assert (left_out.count, left_out.first) == (
        4,
        "line 4: no sample of Prometheus' text format: '\\x00\\x01'",
    )
    said = f"line {place + 2}: neuroncore_utilization_ratio is 'half', no number"
    assert (left_out.doubts, left_out.first_doubt) == (2, said)
    assert read["nc_util_pct"][0, 1] == 25
    assert np.isnan(read["nc_util_pct"][0, 0])


LABELS = f'instance_id="{LARGE}",instance_type="trn2.48xlarge",runtime_tag="9"'
MANY = "".join(
    f'neuroncore_utilization_ratio{{{LABELS},neuroncore="{core}"}} 0.25\n' for core in range(64)
)


@pytest.mark.parametrize("tag", ["9", "llama"])
def test_a_tag_of_digits_is_a_pid(tag: str) -> None:
    """The exporter has no pid beside the tag, whose default it is."""
    reader = HostReader()
    (scrape,), _ = scrapes(MANY.replace('runtime_tag="9"', f'runtime_tag="{tag}"'))
    values(reader, scrape)
    assert reader.tagged == ({} if tag == "9" else {"llama": set(range(16))})


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("NaN", "is NaN"),
        ("+Inf", "is +Inf"),
        ("-Inf", "is -Inf"),
        ("", "has no value"),
        ("4.294967295e+09", ""),
        ("-0.01", ""),
    ],
)
def test_what_a_line_does_not_say_is_not_available(written: str, problem: str) -> None:
    """A core with an invalid number is unknown, not idle, and counted."""
    lines = MANY.splitlines()
    lines[5] = lines[5].replace(" 0.25", f" {written}")
    reader = HostReader()
    (scrape,), left_out = scrapes("\n".join(lines) + "\n")

    read = values(reader, scrape)["nc_util_pct"]

    assert np.argwhere(np.isnan(read)).tolist() == [[1, 2], [1, 3]]
    assert set(read[~np.isnan(read)].tolist()) == {25.0}
    if problem:
        assert (left_out.doubts, left_out.first_doubt) == (
            1,
            f"line 6: neuroncore_utilization_ratio {problem}",
        )
    else:
        assert (
            "neuroncore_utilization of core 5 must be a number from 0 to 101" in reader.doubts.first
        )


@pytest.mark.parametrize("cut", [-1, -2, -30, -160])
def test_what_a_cut_text_would_have_said_is_not_known(cut: int) -> None:
    """After a cut nothing is idle, neither on the cut line nor below."""
    (whole,), _ = scrapes("".join(MANY.splitlines(keepends=True)[:40]))
    (part,), left_out = scrapes("".join(MANY.splitlines(keepends=True)[:40])[:cut])

    idle = values(HostReader(), whole)
    unknown = values(HostReader(), part)

    assert idle["nc_util_pct"][10].tolist() == [0.0] * 8
    assert left_out.doubts == 1
    assert "ends within a line" in left_out.first_doubt
    for name in ("nc_util_pct", "tflops", "hbm_used_bytes"):
        assert np.isnan(unknown[name][10:]).all()
    assert unknown["nc_util_pct"][0].tolist() == [25.0] * 8


def test_samples_that_are_older_are_left_out() -> None:
    """A host's scrapes must be in their order."""
    first = "\n".join(line for line in SEVERAL.splitlines() if line.endswith(f" {START_MS}"))
    later = first.replace(f" {START_MS}", f" {START_MS + 5}")

    told, left_out = scrapes(later + "\n" + first)

    assert len(told) == 1
    assert left_out.count == len(
        [line for line in first.splitlines() if "instance_id" in line and "created" not in line]
    )
    assert "older than what came before it" in left_out.first


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('system_vcpu_count{a="b} 1', "labels"),
        ('system_vcpu_count{a="b"', "no sample"),
        ("system_vcpu_count 1 2 3", "no sample"),
        ("7system 1", "no sample"),
        ("system_vcpu_count 1 999999999999999999", "not a time in milliseconds"),
    ],
)
def test_lines_that_are_no_samples_are_refused(line: str, problem: str) -> None:
    """With what is wrong."""
    with pytest.raises(WireError, match=problem):
        parse_sample(line.encode())


def test_labels_are_unescaped() -> None:
    """Quotation marks, backslashes and ends of lines, and brackets within a label."""
    sample = parse_sample(
        rb'system_vcpu_count{a="x\"},{\\\n", b = "2",} +Inf'.replace(b" = ", b"=")
    )

    assert sample is not None
    assert sample.labels == {"a": 'x"},{\\\n', "b": "2"}
    assert np.isnan(sample.value)
    assert sample.problem == "is +Inf"
    assert (
        parse_sample(b"# HELP x y") is parse_sample(b"") is parse_sample(b"python_info 1") is None
    )


@settings(max_examples=40)
@given(st.binary(max_size=120))
def test_any_bytes_are_read_or_counted(noise: bytes) -> None:
    """Nothing else is raised."""
    list(Scrapes(LeftOut()).read(TextFile(io.BytesIO(ONE.encode()[:2_000] + noise))))


class Pages:
    """Pages of one target, each read with known names and with names parsed again."""

    def __init__(self, metrics: Collection[str] = EXPORTER) -> None:
        self.left_out = (LeftOut(), LeftOut())
        self._scrapes = tuple(map(Scrapes, self.left_out))
        self._readers = tuple(HostReader(metrics=metrics) for _ in self._scrapes)
        self._number = 0

    def read(self, page: str) -> list[Scrape]:
        """Return a page's scrapes, which are the same by both ways."""
        self._number += 1
        known = self._scrapes[0].read_text(f"# 0\n{page}".encode())
        # Another comment is other names.
        parsed = self._scrapes[1].read_text(f"# {self._number}\n{page}".encode())
        assert repr(known) == repr(parsed)
        for one, other in zip(known, parsed, strict=True):
            for reader, scrape in zip(self._readers, (one, other), strict=True):
                with contextlib.suppress(WireError, ConfigError):
                    reader.read_parsed(scrape.document)
            for name, column in self._readers[0].columns.items():
                assert column.tolist() == self._readers[1].columns[name].tolist()
        one_left, other_left = self.left_out
        assert one_left.text("line") == other_left.text("line")
        return known


def test_names_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with the names of the last one has only its values read."""
    read = Scrapes(LeftOut())
    first = read.read_text(exporter_page(0, 1).encode())
    monkeypatch.setattr("trnfleet.bridge.neuron.scrapes.parse_sample", None)

    (again,) = read.read_text(exporter_page(0, 3).encode())

    def completed(scrape: Scrape) -> list[float]:
        return [
            runtime["report"]["execution_stats"]["execution_summary"]["completed"]
            for runtime in scrape.document["neuron_runtime_data"]
        ]

    assert completed(first[0]) == [100.0] * 16
    assert completed(again) == [200.0] * 16


PAGES = [
    *(exporter_page(0, scrape, runtimes=2) for scrape in (1, 2)),
    # A process ends, another one begins, counters begin again.
    exporter_page(0, 3, runtimes=1),
    *(exporter_page(0, scrape, runtimes=3) for scrape in (5, 1, 2)),
    *(
        exporter_page(0, 3, runtimes=3).replace(" 0.0125\n", f" {text}\n")
        for text in ("NaN", "+Inf")
    ),
    exporter_page(0, 4, runtimes=3).replace("} 0.0\n", "} half\n", 1),
    exporter_page(0, 4, runtimes=3).replace("} 0.0\n", "}\n", 1),
    exporter_page(0, 4, runtimes=3).replace("} 0.0\n", "}0.0\n", 1),
    exporter_page(0, 4, runtimes=3).replace("} 0.0\n", "} 0.0 1767571200000\n", 1),
    exporter_page(0, 4, runtimes=3)[:-30_000],
    exporter_page(0, 5, runtimes=3).replace("\n", "\r\n"),
    exporter_page(0, 6, runtimes=3) * 2,
    *(exporter_page(0, scrape, runtimes=3) for scrape in (7, 8)),
    "<html></html>\n",
    "",
    ONE,
    ONE.replace(" 500.0", " 900.0"),
    SEVERAL,
]


@pytest.mark.parametrize("order", [1, -1])
def test_known_names_change_nothing(order: int) -> None:
    """Documents, columns and problems are those of names parsed again."""
    pages = Pages()
    for page in PAGES[::order]:
        pages.read(page)
        pages.read(page)
    assert not pages.left_out[0].is_sound


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 45),
            st.sampled_from(
                ["", "# x", "0", "drop", "again", "NaN", "5e300", "-1", " 1", "}", "5 7"]
            ),
        ),
        max_size=12,
    )
)
def test_any_sequence_of_pages_is_read_the_same(edits: list[tuple[int, str]]) -> None:
    """Whatever a line becomes from one page to the next."""
    pages = Pages()
    lines = ONE.splitlines()
    for place, text in edits:
        number = place % len(lines)
        if text == "drop":
            del lines[number]
        elif text == "again":
            lines = ONE.splitlines()
        else:
            lines[number] = f"{lines[number].rpartition(' ')[0]} {text}"
        pages.read("".join(f"{line}\n" for line in lines))


def executions(scrapes: Scrapes, *lines: str) -> list[float]:
    """Return the growth of completed executions of each process on a page."""
    page = "".join(
        f'execution_status_total{{{line.rpartition(" ")[0]},status_type="completed"}}'
        f" {line.rpartition(' ')[2]}\n"
        for line in lines
    )
    (scrape,) = scrapes.read_text(page.encode())
    return [
        runtime["report"]["execution_stats"]["execution_summary"]["completed"]
        for runtime in scrape.document["neuron_runtime_data"]
    ]


def test_counters_of_hosts_and_processes_that_left_are_forgotten() -> None:
    """Labels that change for ever need no more memory; those of now go on."""
    pages = Scrapes(LeftOut())
    first = 'instance_id="a",runtime_tag="1"'
    assert [executions(pages, f"{first} {count}") for count in (5, 7)] == [[5], [2]]
    executions(pages, 'instance_id="b",runtime_tag="1" 1')
    assert executions(pages, f"{first} 8") == [8]
    many = [f'instance_id="a",runtime_tag="{number}" 1' for number in range(MOST_ENDED + 3)]
    executions(pages, *many)
    assert executions(pages, f"{first} 9") == [8]
    assert executions(pages, many[2]) == [1]
    assert executions(pages, f"{first} 9") == [0]


def test_a_page_of_too_many_lines_is_refused() -> None:
    with pytest.raises(WireError, match="more than 400,000 lines"):
        Scrapes(LeftOut()).read_text(b"a\n" * (MOST_LINES + 1))
