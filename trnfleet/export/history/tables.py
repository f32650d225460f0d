"""Tables of history: their columns, and the SQL from minutes to ten minutes.

The columns of chips are derived from `domain.minutes`: a new metric is a new column. A file of an
older version lacks it: it is NULL there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trnfleet.clock import NS_PER_US
from trnfleet.domain.durations import MINUTE_NS
from trnfleet.domain.goodput import STEPS, PaidRow, Sum, TimeCause
from trnfleet.domain.metrics import JOB_FIGURES, LASTING_JOB_FIGURES, Aggregate
from trnfleet.domain.minutes import MINUTE_COLUMNS, Part

SCHEMA = 1
"""Version of the files: goes up where a column changes its meaning."""
MINUTE_US = MINUTE_NS // NS_PER_US
WINDOW_MINUTES = 10
"""Minutes of a row of an UltraServer, a job or the fleet."""

_PLACE = (("cluster", "VARCHAR"), ("ultraserver", "VARCHAR"))
_WHOLE = "UBIGINT"


class HistoryTable(NamedTuple):
    """A table: the prefix of its files, and its columns except those of the path."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Names with DuckDB's types; the first is the time."""
    key: tuple[str, ...]
    """Columns that identify a row."""
    best: str
    """Order in SQL; the first of several rows with one key counts."""
    address: str = ""
    """The row's address as SQL. Empty if a column has it or there is no address."""
    is_of_cell: bool = False
    """Whether a row is one cell's part. Rows of two cells with one key both count."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its columns."""
        return tuple(name for name, _ in self.columns)


def _figures() -> tuple[tuple[str, str], ...]:
    return tuple((column.name, _WHOLE if column.is_whole else "FLOAT") for column in MINUTE_COLUMNS)


_ROLLED = tuple(
    (column.name, _WHOLE if column.is_whole else "DOUBLE")
    for column in MINUTE_COLUMNS
    if column.part is not Part.LAST
)
_COVER = (("minutes", "UTINYINT"), ("chips", "UINTEGER"), ("covered_s", "DOUBLE"))

CHIPS = HistoryTable(
    "chips",
    (
        ("time", "TIMESTAMP"),
        *_PLACE,
        ("instance", "VARCHAR"),
        ("chip", "USMALLINT"),
        ("job", "VARCHAR"),
        ("covered_s", "FLOAT"),
        *_figures(),
        ("writer", "VARCHAR"),
    ),
    ("time", "cluster", "ultraserver", "instance", "chip"),
    "covered_s DESC, writer",
    "concat(cluster, '/', ultraserver, '/', instance, printf('/chip%02d', chip))",
)
ULTRASERVERS = HistoryTable(
    "ultraservers",
    (("time", "TIMESTAMP"), *_PLACE, *_COVER, *_ROLLED, ("writer", "VARCHAR")),
    ("time", "cluster", "ultraserver"),
    "minutes DESC, covered_s DESC, writer",
    "concat(cluster, '/', ultraserver)",
    is_of_cell=True,
)
JOBS = HistoryTable(
    "jobs",
    (
        ("time", "TIMESTAMP"),
        ("job", "VARCHAR"),
        *_COVER,
        *_ROLLED,
        ("kind", "VARCHAR"),
        ("state", "VARCHAR"),
        *((name, "DOUBLE") for name in JOB_FIGURES),
        ("display_name", "VARCHAR"),
        ("writer", "VARCHAR"),
    ),
    ("time", "job"),
    "minutes DESC, covered_s DESC, writer",
    is_of_cell=True,
)
FLEETS = HistoryTable(
    "fleets",
    (("time", "TIMESTAMP"), *_COVER, *_ROLLED, ("writer", "VARCHAR")),
    ("time",),
    "minutes DESC, covered_s DESC, writer",
    is_of_cell=True,
)
JOB_MINUTES = HistoryTable(
    "job_minutes",
    (
        ("time", "TIMESTAMP"),
        ("job", "VARCHAR"),
        ("kind", "VARCHAR"),
        ("state", "VARCHAR"),
        ("samples", "UINTEGER"),
        *((name, "DOUBLE") for name in JOB_FIGURES),
        ("display_name", "VARCHAR"),
        ("writer", "VARCHAR"),
    ),
    ("time", "job"),
    "samples DESC, writer",
)
EVENTS = HistoryTable(
    "events",
    (
        ("time", "TIMESTAMP"),
        ("severity", "VARCHAR"),
        ("source", "VARCHAR"),
        ("name", "VARCHAR"),
        ("address", "VARCHAR"),
        ("job", "VARCHAR"),
        ("nrt", "INTEGER"),
        ("text", "VARCHAR"),
        ("writer", "VARCHAR"),
    ),
    ("time", "source", "name", "address", "job", "text"),
    "writer",
)
ALERTS = HistoryTable(
    "alerts",
    (
        ("time", "TIMESTAMP"),
        ("kind", "VARCHAR"),
        ("alert", "VARCHAR"),
        ("severity", "VARCHAR"),
        ("address", "VARCHAR"),
        ("job", "VARCHAR"),
        ("since", "TIMESTAMP"),
        ("summary", "VARCHAR"),
        ("fingerprint", "VARCHAR"),
        ("writer", "VARCHAR"),
    ),
    ("time", "fingerprint", "kind"),
    "writer",
)

PAID_SUMS = {
    **{
        f"{cause.key}{unit}": (number, int(cause))
        for number, unit in enumerate(("_s", "_usd"))
        for cause in TimeCause
    },
    **{part.name.lower(): (0, int(part)) for part in Sum if part is not Sum.UNPRICED},
    **{f"{part.name.lower()}_usd": (1, int(part)) for part in STEPS},
    "unpriced_s": (0, int(Sum.UNPRICED)),
}
"""Columns of `PAID_TIME` with their place in `PaidRow.sums`."""
PAID_TIME = HistoryTable(
    "paid_time",
    (
        ("time", "TIMESTAMP"),
        ("booked", "TIMESTAMP"),
        ("job", "VARCHAR"),
        ("is_other_jobs", "BOOLEAN"),
        ("lasts_s", "DOUBLE"),
        *((name, "DOUBLE") for name in PAID_SUMS),
        ("ideal_step_s", "DOUBLE"),
        ("measured_on", "UINTEGER"),
        ("writer", "VARCHAR"),
    ),
    ("time", "job", "is_other_jobs", "booked"),
    "lasts_s DESC, writer",
    is_of_cell=True,
)

TABLES = {
    table.name: table
    for table in (CHIPS, ULTRASERVERS, JOBS, FLEETS, JOB_MINUTES, EVENTS, ALERTS, PAID_TIME)
}
ROLLED_UP = (ULTRASERVERS, JOBS, FLEETS)
"""Tables of ten minutes, derived from the minutes."""


def paid_cells(row: PaidRow) -> tuple[Any, ...]:
    """Return the values of `PAID_TIME` without the writer."""
    sums: dict[str, float | None] = {
        name: float(row.sums[place]) for name, place in PAID_SUMS.items()
    }
    if not row.has_steps:
        sums["checkpoints"] = None
    if not row.sums[0, Sum.METERED_CHIP_S]:
        sums["energy_j"] = sums["modelled_j"] = None
    return (
        row.minute * MINUTE_US,
        row.booked * MINUTE_US,
        row.job or None,
        row.job is None,
        row.lasts_s,
        *sums.values(),
        row.ideal_s if row.ideal_s > 0 else None,
        row.measured_on,
    )


def added_sql(rows: str, backlog: str) -> str:
    """Return the SQL of rows of `CHIPS` with backlog added to those of its time and address.

    Args:
        rows: SQL of rows, each once.
        backlog: SQL of the rows of outages.
    """
    key = f"fleet, cell, {', '.join(CHIPS.key)}"
    parts = {column.name: column.part for column in MINUTE_COLUMNS}
    figures = []
    for name, kind in CHIPS.columns:
        if name in CHIPS.key:
            figures.append(name)
        elif name == "covered_s":
            figures.append("least(60, sum(covered_s))::FLOAT AS covered_s")
        elif parts.get(name) is Part.MEAN:
            weighted = f"sum({name}::DOUBLE * covered_s)"
            seconds = f"sum(covered_s) FILTER ({name} IS NOT NULL)"
            figures.append(
                f"coalesce({weighted} / nullif({seconds}, 0), max({name}))::FLOAT AS {name}"
            )
        elif name in parts and parts[name] is not Part.LAST:
            figures.append(f"{_joining(name)}({name})::{kind} AS {name}")
        else:
            # A counter's last value is its highest; only the live row has a job.
            figures.append(f"max({name}) AS {name}")
    return (
        f"SELECT * FROM ({rows}) ANTI JOIN ({backlog}) USING ({key}) UNION ALL SELECT"
        f" {', '.join(figures)}, fleet, cell, max(address) AS address FROM (SELECT * FROM ({rows})"
        f" SEMI JOIN ({backlog}) USING ({key}) UNION ALL {backlog}) GROUP BY {key}"
    )


def per_minute_sql(source: str) -> str:
    """Return the SQL of the sums of chips per minute, UltraServer and job.

    Args:
        source: SQL of rows of `CHIPS`.
    """
    figures = []
    for name, _, part in MINUTE_COLUMNS:
        if part is Part.MEAN:
            figures.append(f"sum({name} * covered_s) AS {name}")
            figures.append(f"sum(covered_s) FILTER ({name} IS NOT NULL) AS {name}_s")
        elif part is not Part.LAST:
            figures.append(f"{_joining(name)}({name}) AS {name}")
    return (
        "SELECT time AS minute, cluster, ultraserver, job, count(*) AS chips, sum(covered_s) AS"
        f" covered_s, max(covered_s) AS span_s, {', '.join(figures)} FROM ({source}) GROUP BY ALL"
    )


def rolled_up_sql(table: HistoryTable, per_minute: str) -> str:
    """Return the SQL of a table's rows of ten minutes, still without a writer's name.

    A sum is the mean over the time in which anything of the node was covered: a chip present for
    half of it adds half.

    Args:
        table: One of `ROLLED_UP`.
        per_minute: The table made by `per_minute_sql`.
    """
    key = [name for name in table.key if name != "time"]
    within = []
    figures = []
    for name, metric, part in MINUTE_COLUMNS:
        if part is Part.MEAN:
            within += [f"sum({name}) AS {name}", f"sum({name}_s) AS {name}_s"]
            over = "sum(span_s)" if metric.aggregate is Aggregate.SUM else f"sum({name}_s)"
            figures.append(f"sum({name}) / nullif({over}, 0) AS {name}")
        elif part is not Part.LAST:
            within.append(f"{_joining(name)}({name}) AS {name}")
            whole = f"::{_WHOLE}" if part is Part.INCREASE else ""
            figures.append(f"{_joining(name)}({name}){whole} AS {name}")
    where = "WHERE job IS NOT NULL" if "job" in key else ""
    minutes = (
        f"SELECT {', '.join(['minute', *key])}, sum(chips) AS chips, sum(covered_s) AS covered_s,"
        f" max(span_s) AS span_s, {', '.join(within)} FROM {per_minute} {where} GROUP BY ALL"
    )
    return (
        "SELECT"
        f" {', '.join([f'time_bucket(INTERVAL {WINDOW_MINUTES} MINUTE, minute) AS time', *key])},"
        " count(*)::UTINYINT AS minutes, max(chips)::UINTEGER AS chips, sum(covered_s) AS"
        f" covered_s, {', '.join(figures)} FROM ({minutes}) GROUP BY ALL"
    )


def job_figures_sql(source: str) -> str:
    """Return the SQL of the jobs' own figures over ten minutes.

    Args:
        source: SQL of rows of `JOB_MINUTES`.
    """
    figures = [
        (
            f"last({name} ORDER BY minute) FILTER ({name} IS NOT NULL) AS {name}"
            if name in LASTING_JOB_FIGURES
            else (
                f"sum({name} * samples) / nullif(sum(samples) FILTER ({name} IS NOT NULL), 0) AS"
                f" {name}"
            )
        )
        for name in JOB_FIGURES
    ]
    return (
        f"SELECT time_bucket(INTERVAL {WINDOW_MINUTES} MINUTE, minute) AS time, job, last(kind"
        f" ORDER BY minute) AS kind, last(state ORDER BY minute) AS state, {', '.join(figures)},"
        " last(display_name ORDER BY minute) AS display_name"
        f" FROM (SELECT * RENAME (time AS minute) FROM ({source})) GROUP BY ALL"
    )


PAID_PERIODS_SQL = (
    "SELECT fleet, min(begin), max(until) FROM (SELECT fleet, epoch_us(time) //"
    f" {MINUTE_US} AS begin, begin + 1 AS until FROM paid_time UNION ALL SELECT fleet,"
    f" epoch_us(time) // {MINUTE_US} AS begin, begin + minutes AS until FROM fleets) GROUP BY fleet"
    " ORDER BY fleet"
)
"""Fleets with the first minute of their history, and the minute after its last."""


def paid_time_sql(first: int, last: int, every: int) -> tuple[str, str]:
    """Return the SQL of a fleet's paid time by interval, and of the observed time of intervals.

    The first has the interval's number, the first minute, job, whether it is other jobs, ideal step
    time, instances it is measured on, whether it counts steps, and the sums, by configuration. The
    second has the number and seconds. The parameter of both is the fleet.

    Args:
        first: First minute, since 1970.
        last: Last minute.
        every: Minutes of an interval.
    """
    minute = f"epoch_us(time) // {MINUTE_US}"
    number = f"({minute} - {first}) // {every} AS number"
    rows = (
        "FROM paid_time WHERE fleet = ? AND time BETWEEN"
        f" make_timestamp({first * MINUTE_US}) AND make_timestamp({last * MINUTE_US})"
    )
    sums = ", ".join(f"sum({name})" for name in PAID_SUMS)
    by_job = (
        f"SELECT {number}, min({minute}) AS minute, job, is_other_jobs,"
        f" arg_max(ideal_step_s, time), measured_on, bool_or(checkpoints IS NOT NULL), {sums} FROM"
        " (SELECT *, CASE WHEN measured_on IS NULL THEN ideal_step_s END AS plan_s"
        f" {rows}) GROUP BY number, job, is_other_jobs, plan_s, measured_on ORDER BY number, minute"
    )
    lasts = f"SELECT time, max(lasts_s) AS lasts_s {rows} GROUP BY time"
    return by_job, f"SELECT {number}, sum(lasts_s) FROM ({lasts}) GROUP BY number"


def _joining(name: str) -> str:
    """Return the function that aggregates a maximum, an increase or bits."""
    column = next(column for column in MINUTE_COLUMNS if column.name == name)
    if column.part is Part.MAX:
        return "max"
    if column.part is Part.INCREASE:
        return "sum"
    return "bit_or" if column.metric.aggregate is Aggregate.OR else "bit_and"
