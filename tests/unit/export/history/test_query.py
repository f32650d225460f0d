"""Queries of history: only what is below the folder, and only reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.history import CHIPS, FIRST, write_minutes

from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.export.history.catalogue import SCHEMA_KEY
from trnfleet.export.history.database import Database, HistoryError
from trnfleet.export.history.files import Partition, day_of
from trnfleet.export.history.query import Figure, HistoryReader, open_history

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARTITION = Partition("demo", day_of(FIRST), "main")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of three minutes."""
    made = tmp_path_factory.mktemp("history")
    write_minutes(made, range(FIRST, FIRST + 3))
    return made


@pytest.fixture
def history(folder: Path) -> Iterator[HistoryReader]:
    """Yield a reader of them."""
    with open_history(folder) as reader:
        yield reader


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '/tmp/trnfleet-reached-out.csv'",
        "ATTACH '/tmp/trnfleet-reached-out.db'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('{folder}/../../../../../../etc/passwd')",
        "SELECT * FROM 'https://example.invalid/x.parquet'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '90GB'",
        "EXPORT DATABASE '/tmp/trnfleet-reached-out'",
    ],
)
def test_duckdb_itself_refuses_what_reaches_out(folder: Path, sql: str) -> None:
    """The connection is locked down, whatever statements are let through to it."""
    database = Database(folder)
    try:
        with pytest.raises(HistoryError) as caught:
            database.run(sql.format(folder=folder))
    finally:
        database.close()
    assert "\n" not in str(caught.value)
    assert any(each in str(caught.value) for each in ("disabled", "locked"))


@pytest.mark.parametrize(
    "sql",
    [
        "COPY chips TO '{folder}/evil.parquet'",
        "EXPLAIN ANALYZE COPY chips TO '{folder}/evil.parquet'",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW chips",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
        "",
    ],
)
def test_only_one_statement_that_reads_is_run(
    history: HistoryReader, folder: Path, sql: str
) -> None:
    """Within the folder nothing is written, either."""
    before = sorted(folder.rglob("*"))
    with pytest.raises(ConfigError):
        history.query(sql.format(folder=folder))
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT powr_w FROM chips", "no column 'powr_w' in chips: did you mean 'power_w'?"),
        ("SELECT chips.tflop FROM chips", "no column 'tflop' in chips: did you mean 'tflops'?"),
        ("SELECT 1 FROM ultraserver", "no table 'ultraserver': did you mean 'ultraservers'?"),
        ("SELEC 1", "syntax error"),
    ],
)
def test_an_error_names_the_folder_and_the_nearest_choice(
    history: HistoryReader, folder: Path, sql: str, said: str
) -> None:
    """In one line."""
    with pytest.raises(TrnfleetError) as caught:
        history.query(sql)
    assert str(folder) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_parts_of_a_fleet_in_two_cells_all_count(tmp_path: Path) -> None:
    """A row of each cell, with its own chips; of two writers of one cell that of one counts."""
    for cell, cluster in (("main", "uc1"), ("more", "uc2")):
        for writer in ("host-a", "host-b"):
            write_minutes(
                tmp_path,
                range(FIRST, FIRST + 10),
                writer=writer,
                cell=cell,
                cluster=cluster,
                windows=[FIRST],
            )
    with open_history(tmp_path) as reader:
        found = {
            table: reader.query(
                f"SELECT count(*), sum(chips), count(DISTINCT cell) FROM {table}"
            ).rows  # noqa: S608  names of tables
            for table in ("fleets", "jobs", "ultraservers")
        }
    assert found == {
        "fleets": [(2, 2 * CHIPS, 2)],
        "jobs": [(2, CHIPS, 2)],
        "ultraservers": [(4, 2 * CHIPS, 2)],
    }


def test_rows_are_cut_at_a_number_and_that_shows(history: HistoryReader) -> None:
    """Not silently."""
    assert history.query("SELECT chip FROM chips", most=5).is_cut
    assert not history.query("SELECT chip FROM chips LIMIT 5", most=5).is_cut


def test_a_figure_over_time_is_the_sum_of_what_adds_up(history: HistoryReader) -> None:
    """Of a node, in steps, between two times."""
    all_w = history.figure(Figure("power_w", every_s=60)).rows
    assert [row[1] for row in all_w] == [pytest.approx(CHIPS * 100 + sum(range(CHIPS)))] * 3
    second = history.figure(
        Figure(
            "power_w",
            "uc1/us-0002/trn2u-0002-3/chip15",
            from_us=(FIRST + 1) * 60_000_000,
            every_s=60,
        )
    ).rows
    assert [row[1] for row in second] == [pytest.approx(100 + CHIPS - 1)] * 2
    assert history.figure(Figure("nc_util_pct", "uc1/us-0001", every_s=120)).rows[0][
        1
    ] == pytest.approx(50)
    assert history.figure(Figure("power_w_max", every_s=60)).rows[0][1] == CHIPS - 1 + 105
    assert history.figure(Figure("mem_ecc_corrected_increase", every_s=180)).rows[0][1] == 3 * CHIPS
    assert history.figure(Figure("power_w", fleet="other", every_s=60)).rows == []


def test_the_nodes_that_have_most_come_first(history: HistoryReader) -> None:
    """Chips, or what they are in."""
    assert history.figure(Figure("power_w", "uc1/us-0001", top=2)).rows == [
        ("uc1/us-0001/trn2u-0001-3/chip15", pytest.approx(163.0), 3),
        ("uc1/us-0001/trn2u-0001-3/chip14", pytest.approx(162.0), 3),
    ]
    assert [row[0] for row in history.figure(Figure("power_w", top=9, of="ultraserver")).rows] == [
        "uc1/us-0002",
        "uc1/us-0001",
    ]
    assert history.figure(Figure("power_w", top=9, of="job")).rows == [
        ("train", pytest.approx(64 * 100 + sum(range(64))), 3)
    ]


@pytest.mark.parametrize(
    ("figure", "said"),
    [
        (Figure("powr_w"), "did you mean 'power_w'?"),
        (Figure("exec_errors"), "take exec_errors_increase"),
        (Figure("power_w", "uc1//x"), "does not match"),
        (Figure("power_w", "uc1/us-0001/h/chip05/nc1"), "NeuronCores"),
        (Figure("power_w", "uc1/us-0001/h/five"), "write it as chip05"),
    ],
)
def test_a_figure_that_there_is_not_is_refused(
    history: HistoryReader, figure: Figure, said: str
) -> None:
    """With what there is."""
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        history.figure(figure)


def test_an_empty_folder_has_all_views_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    """A query of nothing gives nothing."""
    with open_history(tmp_path) as reader:
        assert (
            reader.query(
                "SELECT address, power_w FROM chips UNION ALL SELECT address, 1 FROM events"
            ).rows
            == []
        )
    with pytest.raises(ConfigError, match="no such folder"):
        HistoryReader(tmp_path / "none")


def test_torn_foreign_and_newer_files_are_left_out_and_named(tmp_path: Path) -> None:
    """What is sound is read, as if they were not there."""
    write_minutes(tmp_path, range(FIRST, FIRST + 4))
    below = PARTITION.below(tmp_path)
    files = sorted(below.iterdir())
    torn, footer, damaged = files[0], files[1], files[2]
    torn.write_bytes(torn.read_bytes()[:-100])
    whole = footer.read_bytes()
    footer.write_bytes(whole[:-400] + bytes(391) + b"\0" + whole[-8:])
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:4] + b"\xff" * (len(whole) // 2) + whole[4 + len(whole) // 2 :])
    (below / "notes.parquet").write_bytes(b"text")
    database = Database(tmp_path)
    newer = below / files[3].name.replace("host-a", "host-b")
    database.copy("SELECT 1 AS x", newer, {SCHEMA_KEY: "99"})
    foreign = below / files[3].name.replace("host-a", "host-c")
    database.copy("SELECT 1 AS x", foreign, {"made_by": "someone"})
    database.close()
    with open_history(tmp_path) as reader:
        [(count, power_w)] = reader.query("SELECT count(*), sum(power_w) FROM chips").rows
        left_out = {each.path.name: each.why for each in reader.left_out}

    assert (count, power_w) == (CHIPS, pytest.approx(CHIPS * 100 + sum(range(CHIPS))))
    assert left_out.keys() == {each.name for each in (torn, footer, damaged, newer, foreign)} | {
        "notes.parquet"
    }
    assert left_out[torn.name].startswith("torn")
    assert "schema version 99" in left_out[newer.name]


def test_two_writers_of_one_cell_count_once_and_who_covers_most_counts(tmp_path: Path) -> None:
    """Rows of both are there, told apart by writer."""
    write_minutes(tmp_path, [FIRST, FIRST + 1], writer="host-a", covered_s=20.0)
    write_minutes(tmp_path / "other", [FIRST + 1, FIRST + 2], writer="host-b", covered_s=60.0)
    for file in PARTITION.below(tmp_path / "other").iterdir():
        file.rename(PARTITION.below(tmp_path) / file.name)
    with open_history(tmp_path) as reader:
        rows = reader.query(
            "SELECT time, writer, count(*), min(covered_s) FROM chips GROUP BY ALL ORDER BY 1"
        ).rows

    assert [row[1:] for row in rows] == [
        ("host-a", CHIPS, 20.0),
        ("host-b", CHIPS, 60.0),
        ("host-b", CHIPS, 60.0),
    ]


def test_a_query_that_needs_too_much_memory_says_so(folder: Path) -> None:
    """Instead of taking the machine's."""
    with (
        open_history(folder, memory_bytes=20 * 2**20) as reader,
        pytest.raises(HistoryError, match="--memory"),
    ):
        reader.query(
            "SELECT list(a.range) FROM range(4000000) AS a, range(3) AS b GROUP BY a.range % 1000000 ORDER BY 1"
        )
