"""Queue on disk for the messages of one host while its broker is away.

An event or telemetry is a row, deleted once the broker has acknowledged it. Of retained state only
the newest message of a topic is stored. It survives the death of the process.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from trnfleet import logs
from trnfleet.clock import NS_PER_S
from trnfleet.errors import WireError
from trnfleet.files import open_private
from trnfleet.text import plain
from trnfleet.wire.ports import Envelope
from trnfleet.wire.telemetry import telemetry_head
from trnfleet.wire.topics import DEFAULT_ROOT, RETAINED, TopicClass, parse_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

log = logs.get_logger(__name__)

ResultT = TypeVar("ResultT")

MOST_BYTES = 64 * 2**20
"""Most disk for the queue. An eighth is left for SQLite's own pages and its write-ahead log."""
MOST_MEMORY_BYTES = 4 * 2**20
"""Most memory for the queue where the disk cannot be written: a quarter of an hour in frames."""
MOST_AGE_S = 15 * 60
"""Age at which a message is dropped when another one is added."""
PAGE_BYTES = 4_096

_QUEUED = (*sorted(RETAINED), TopicClass.EVENT, TopicClass.TELEMETRY)
"""Classes that wait. A late reply is of no use."""
_FORMAT = 1
"""Version of the table; a file of another one is set aside."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS queue (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,"
    " class TEXT NOT NULL, retain INTEGER NOT NULL, topic TEXT NOT NULL,"
    " qos INTEGER NOT NULL, payload BLOB NOT NULL, content_type TEXT)"
)
_DROPPED_TABLE = (
    "CREATE TABLE IF NOT EXISTS dropped (class TEXT PRIMARY KEY, number INTEGER NOT NULL)"
)
_ADD_DROPPED = (
    "INSERT INTO dropped VALUES (?, ?)"
    " ON CONFLICT (class) DO UPDATE SET number = number + excluded.number"
)
_COLUMNS = "at, class, retain, topic, qos, payload, content_type"
_INSERT = f"INSERT INTO queue ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  ours
_PRAGMAS = (
    f"page_size = {PAGE_BYTES}",
    "journal_mode = WAL",
    "synchronous = NORMAL",
    "wal_autocheckpoint = 256",
    f"journal_size_limit = {2**20}",
    f"user_version = {_FORMAT}",
)


class Queued(NamedTuple):
    """A waiting message."""

    id: int
    topic_class: str
    envelope: Envelope


class Outbox:
    """The queue of one host. Nothing here raises, and threads may share it."""

    def __init__(
        self, path: Path | None, *, root: str = DEFAULT_ROOT, most_bytes: int = MOST_BYTES
    ) -> None:
        """Open the queue, with what a former process has left.

        A damaged file is set aside under another name. Without a usable disk the queue is in
        memory, and `problem` has the reason.

        Args:
            path: Its file, which no other process may use; None for memory alone.
            root: First part of the topics.
            most_bytes: Most disk that it takes.
        """
        self._name = path
        self._path = path
        self.root = root
        self._most_pages = most_bytes * 7 // 8 // PAGE_BYTES
        self._lock = threading.Lock()
        self.waiting: Counter[str] = Counter()
        """Waiting messages by class."""
        self.dropped: Counter[str] = Counter()
        """Messages given up by class and not told yet: too old, too many, or refused by the broker.
        """
        self.problem = ""
        """Why the disk is not used, or what was wrong with its file; empty if nothing."""
        self._is_closed = False
        self._database = self._open()

    def close(self) -> None:
        """Close the file; what waits is there at the next start."""
        with self._lock:
            self._is_closed = True
            self._database.close()

    def put(self, envelopes: Iterable[Envelope], wall_ns: int) -> None:
        """Add messages. The oldest ones are dropped and counted if there are too many.

        Args:
            envelopes: The messages; others than state, events and telemetry are only counted.
            wall_ns: The wall clock; it may jump back.
        """
        rows = list(envelopes)
        self._guarded(lambda: self._put(rows, wall_ns))

    def state(self) -> list[Queued]:
        """Return the newest retained message of each topic, the longest waiting first."""
        return self._guarded(lambda: self._select("retain = 1 ORDER BY id", 2**31)) or []

    def oldest(self, count: int) -> list[Queued]:
        """Return events, then telemetry, each in order."""
        order = f"retain = 0 ORDER BY class = '{TopicClass.TELEMETRY}', id"
        return self._guarded(lambda: self._select(order, count)) or []

    def first_tick(self, boot: str) -> int | None:
        """Return the number of the oldest waiting telemetry of a boot; None for none."""
        return self._guarded(lambda: self._first_tick(boot))

    def _first_tick(self, boot: str) -> int | None:
        rows = self._database.execute(
            "SELECT topic, payload, content_type FROM queue WHERE class = ? ORDER BY id",
            (TopicClass.TELEMETRY,),
        )
        return first_tick(boot, (Envelope(row[0], row[1], content_type=row[2]) for row in rows))

    def done(self, rows: Iterable[Queued], *, dropped: bool = False) -> None:
        """Delete messages that were delivered, or that nobody accepts."""
        ids = [(row.id,) for row in rows]
        self._guarded(lambda: self._delete(ids, dropped=dropped))

    def tell_dropped(self) -> Counter[str]:
        """Return the messages given up by class, and forget them."""
        return self._guarded(self._tell_dropped) or Counter()

    def _tell_dropped(self) -> Counter[str]:
        dropped = self.dropped
        if dropped:
            with self._database as database:
                database.execute("DELETE FROM dropped")
            self.dropped = Counter()
        return dropped

    def _drop(self, gone: Mapping[str, int]) -> None:
        """Count messages given up by class, for a later process, too."""
        self.dropped.update(gone)
        self._database.executemany(_ADD_DROPPED, gone.items())

    def _put(self, envelopes: list[Envelope], wall_ns: int) -> None:
        with self._database as database:
            (newest,) = database.execute("SELECT max(at) FROM queue").fetchone()
            if newest is not None and newest > wall_ns:
                # The clock was set back: ages stay as they are.
                database.execute("UPDATE queue SET at = at - ?", (newest - wall_ns,))
            for envelope in envelopes:
                name = self.class_of(envelope.topic)
                if name not in _QUEUED:
                    self._drop({name: 1})
                    continue
                if envelope.retain:
                    former = "DELETE FROM queue WHERE retain = 1 AND topic = ?"
                    self._forget(f"{former} RETURNING class", (envelope.topic,))
                row = (wall_ns, name, envelope.retain, envelope.topic, envelope.qos)
                database.execute(_INSERT, (*row, envelope.payload, envelope.content_type))
                self.waiting[name] += 1
            too_old = "DELETE FROM queue WHERE at < ? RETURNING class"
            self._drop(self._forget(too_old, (wall_ns - MOST_AGE_S * NS_PER_S,)))
            self._drop_surplus()

    def _drop_surplus(self) -> None:
        """Drop the oldest messages until the rest fits."""
        while self.waiting.total():
            [(pages,)] = self._database.execute("PRAGMA page_count").fetchall()
            [(free,)] = self._database.execute("PRAGMA freelist_count").fetchall()
            if pages - free <= self._most_pages:
                break
            oldest = "DELETE FROM queue WHERE id = (SELECT min(id) FROM queue) RETURNING class"
            self._drop(self._forget(oldest, ()))

    def _delete(self, ids: list[tuple[int]], *, dropped: bool) -> None:
        with self._database:
            for row in ids:
                gone = self._forget("DELETE FROM queue WHERE id = ? RETURNING class", row)
                if dropped:
                    self._drop(gone)

    def _forget(self, sql: str, values: tuple[object, ...]) -> Counter[str]:
        """Delete rows by a statement that returns them, and return their number by class."""
        gone = self._database.execute(sql, values).fetchall()
        classes = Counter(name for (name,) in gone)
        self.waiting -= classes
        return classes

    def _select(self, where: str, count: int) -> list[Queued]:
        rows = self._database.execute(
            f"SELECT id, {_COLUMNS} FROM queue WHERE {where} LIMIT ?",  # noqa: S608  ours
            (count,),
        )
        return [
            Queued(number, name, Envelope(topic, payload, qos, bool(retain), content_type))
            for number, _, name, retain, topic, qos, payload, content_type in rows
        ]

    def class_of(self, topic: str) -> str:
        """Return the class of a topic, `other` if it is none of ours."""
        try:
            return parse_topic(topic, self.root).topic_class.value
        except WireError:
            return "other"

    def _guarded(self, work: Callable[[], ResultT]) -> ResultT | None:
        """Return a result; where the file fails, go on with another one, or in memory."""
        with self._lock:
            if self._is_closed:
                # A thread that was late at the end of the process.
                return None
            before = Counter(self.waiting), Counter(self.dropped)
            try:
                return work()
            except sqlite3.Error as error:
                self.waiting, self.dropped = before
                try:
                    self._replace(error)
                    return work()
                except sqlite3.Error as again:
                    self._report(f"messages do not wait: {again}")
                    return None

    def _replace(self, error: sqlite3.Error) -> None:
        """Go on without the present file, with the newest messages that can be read of it."""
        rows: list[tuple[Any, ...]] = []
        try:
            rows = self._database.execute(
                f"SELECT {_COLUMNS} FROM queue ORDER BY id DESC LIMIT ?",  # noqa: S608  ours
                (MOST_MEMORY_BYTES // PAGE_BYTES,),
            ).fetchall()
        except sqlite3.Error:
            log.debug("outbox_not_readable")
        with contextlib.suppress(sqlite3.Error):
            self._database.close()
        waited = self.waiting
        dropped = self.dropped
        path = self._path
        if path is not None and _is_damage(error):
            self._set_aside(path, error)
        elif path is not None:
            self._path = None
            self._report(f"{path}: {error}; messages wait in memory")
            # What was read of it would come twice at the next start.
            _unlink(path)
        self._database = self._open()
        with self._database:
            self._database.executemany(_INSERT, reversed(rows))
            self._count()
            self._drop(dropped + (waited - self.waiting))
            self._drop_surplus()

    def _open(self) -> sqlite3.Connection:
        """Return the database: of the file if it can be used, else in memory."""
        path = self._path
        while path is not None:
            try:
                return self._connect(path)
            except (OSError, sqlite3.Error) as error:
                if isinstance(error, sqlite3.Error) and _is_damage(error):
                    self._set_aside(path, error)
                    continue
                self._path = path = None
                self._report(f"{self._name}: {error}; messages wait in memory")
        self._most_pages = min(self._most_pages, MOST_MEMORY_BYTES // PAGE_BYTES)
        return self._connect(None)

    def _connect(self, path: Path | None) -> sqlite3.Connection:
        """Return an open database with its table, and count what waits in it.

        Raises:
            OSError: the file cannot be made.
            sqlite3.Error: it cannot be used.
        """
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(open_private(str(path), os.O_RDWR | os.O_CREAT))
        database = sqlite3.connect(path or ":memory:", timeout=0.0, check_same_thread=False)
        try:
            # The lock ends with the process. Another one with the same file uses its memory.
            database.execute("PRAGMA locking_mode = EXCLUSIVE")
            _check(database)
            for pragma in _PRAGMAS:
                database.execute(f"PRAGMA {pragma}")
            with database:
                database.execute(_TABLE)
                database.execute(_DROPPED_TABLE)
            self._database = database
            self._count()
        except BaseException:
            database.close()
            raise
        return database

    def _count(self) -> None:
        rows = self._database.execute("SELECT class, count(*) FROM queue GROUP BY class").fetchall()
        self.waiting = Counter(dict(rows))
        self.dropped = Counter(dict(self._database.execute("SELECT class, number FROM dropped")))

    def _set_aside(self, path: Path, error: sqlite3.Error) -> None:
        aside = path.with_name(f"{path.name}.damaged")
        try:
            path.replace(aside)
        except OSError as failure:
            self._path = None
            self._report(f"{path}: {error}; {failure}; messages wait in memory")
            return
        _unlink(path)
        self._report(f"{path}: {error}; it is now {aside.name}, and a new queue begins")

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = plain(problem, 300)
            log.warning("outbox", problem=self.problem)


def first_tick(boot: str, telemetry: Iterable[Envelope]) -> int | None:
    """Return the number of a boot's first message; None for none."""
    for envelope in telemetry:
        with contextlib.suppress(WireError):
            own, seq = telemetry_head(envelope)
            if own == boot:
                return seq
    return None


class _DamagedError(sqlite3.DatabaseError):
    """Damage that SQLite reports as a result."""


def _check(database: sqlite3.Connection) -> None:
    """Raise an error if a database is damaged, or of another version."""
    [(version,)] = database.execute("PRAGMA user_version").fetchall()
    [(health,)] = database.execute("PRAGMA quick_check(1)").fetchall()
    if health != "ok":
        raise _DamagedError(str(health))
    if version not in {0, _FORMAT}:
        raise _DamagedError(f"format {version}, and this trnfleet knows {_FORMAT}")


def _is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file's content is wrong, and not the disk full or not writable."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}


def _unlink(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(OSError):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
