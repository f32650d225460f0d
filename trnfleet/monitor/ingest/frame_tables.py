"""The tables of topics whose frames are applied in bulk, by frame form.

A table itself is in `frame_rows.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.domain.metrics import BY_NAME
from trnfleet.monitor.ingest.frame_rows import FrameRows
from trnfleet.wire.frame_batch import IS_LITTLE_ENDIAN, FrameForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.monitor.ingest.frame_rows import FramedTopic, Shift
    from trnfleet.monitor.slices import Slices
    from trnfleet.wire.frames import FrameTemplate

LARGEST_FRAME = 16_384
"""Largest frame in bytes for which bulk application is faster. A frame of an instance has 2 KB, one
of a block 67."""
MOST_FORMS = 64
"""Forms of frames that have a table."""


class FrameTables:
    """The tables of all forms."""

    def __init__(self) -> None:
        self._by_form: dict[tuple[int, int, int], tuple[FrameTemplate, FrameRows]] = {}
        """By the identity of the template, chips and instances."""

    def move_all(self) -> Slices[None]:
        """Follow the topics of all tables to their rows, in slices."""
        self._drop_empty()
        for _, table in self._by_form.values():
            yield from table.move_all()

    def shift(self, shift: Shift) -> list[FramedTopic]:
        """Follow the topics of all tables to their rows, as `FrameRows.shift` does."""
        self._drop_empty()
        return [topic for _, table in self._by_form.values() for topic in table.shift(shift)]

    def _drop_empty(self) -> None:
        """Forget the tables that no topic has entered."""
        self._by_form = {key: table for key, table in self._by_form.items() if len(table[1])}

    def enter(self, topic: FramedTopic, payload: bytes) -> None:
        """Enter a topic after its newest frame was applied, if it can use a table."""
        decoder = topic.decoder
        if decoder is None or not _is_uniform(topic, len(payload)):
            return
        template = decoder.template(payload)
        if template is None:
            return
        instances = topic.instances.stop - topic.instances.start  # type: ignore[union-attr]  # uniform
        key = id(template), topic.chip_count, instances
        known = self._by_form.get(key)
        if known is None:
            if any(BY_NAME[cut.name].dtype != cut.dtype for cut in template.cuts):
                return
            if len(self._by_form) >= MOST_FORMS:
                return
            rows = FrameRows(FrameForm(template, payload), topic.chip_count, instances)
            known = self._by_form[key] = template, rows
        known[1].enter(topic, payload)

    def begin(self, topics: Sequence[FramedTopic], payloads: Sequence[bytes]) -> None:
        """Enter new topics before their first frames, if the form is known.

        Args:
            topics: The topics. One topic may have several frames.
            payloads: A frame of each.
        """
        by_table: dict[int, tuple[FrameRows, list[int]]] = {}
        for place, (topic, payload) in enumerate(zip(topics, payloads, strict=True)):
            decoder = topic.decoder
            descriptor = topic.descriptor
            template = None if decoder is None else decoder.template_of(len(payload))
            if (
                template is None
                or descriptor is None
                or topic.tracker.last is not None
                or not _is_uniform(topic, len(payload))
                or template.revision != descriptor.revision
                or payload[template.path] != topic.path.encode()
                or payload[template.boot] != descriptor.boot.encode()
            ):
                continue
            instances = topic.instances.stop - topic.instances.start  # type: ignore[union-attr]  # uniform
            known = self._by_form.get((id(template), topic.chip_count, instances))
            if known is not None:
                by_table.setdefault(id(known[1]), (known[1], []))[1].append(place)
        for table, places in by_table.values():
            table.begin([topics[place] for place in places], [payloads[place] for place in places])


def _is_uniform(topic: FramedTopic, size_bytes: int) -> bool:
    """Return whether a topic's frames are copied unchanged to consecutive rows."""
    return (
        IS_LITTLE_ENDIAN
        and size_bytes <= LARGEST_FRAME
        and not topic.has_other_columns
        and isinstance(topic.chips, slice)
        and isinstance(topic.instances, slice)
        and topic.chip_count > 0
    )
