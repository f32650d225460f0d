"""Many frames of one structure at once: bytes as rows of a matrix.

They are compared and cut by whole columns. Owns the bytes: which must be unchanged, and where the
numbers and the values are. It knows no store and counts nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trnfleet.domain.metrics import BY_NAME
from trnfleet.wire.frames import Cut, FrameTemplate, is_above
from trnfleet.wire.values import LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


IS_LITTLE_ENDIAN: Final = sys.byteorder == "little"
"""Whether this machine has the wire's byte order. If not, values are converted frame by frame."""
_WORD = np.dtype(np.uint64).itemsize
"""Bytes that are compared at once."""


class FrameForm:
    """Frames of one template; heads are compared with the expected ones of their topics."""

    def __init__(self, template: FrameTemplate, payload: bytes) -> None:
        """Begin with a frame that fits a template."""
        self.size = template.size
        self._pad = bytes(-self.size % _WORD)
        self._words = (self.size + len(self._pad)) // _WORD
        self._seq_at, self._ts_at = template.seq_at, template.ts_at
        values_at = min(cut.at for cut in template.cuts)
        is_fixed = np.zeros(self._words * _WORD, np.bool_)
        is_fixed[: self.size] = template.is_fixed
        is_head = np.zeros(len(is_fixed), np.bool_)
        is_head[:values_at] = True
        for at in (self._seq_at, self._ts_at):
            is_head[at : at + 8] = False
        self.head_words = -(-values_at // _WORD)
        """Words of a head: path, boot, revision and structure. Value bytes in a shared word are
        masked."""
        self._head_mask = _mask(is_head)[: self.head_words]
        begin = self.stack([payload])[0, : self.head_words]
        is_head[: self.size] &= template.is_fixed
        self._structure_mask = _mask(is_head)[: self.head_words]
        self._structure = begin & self._structure_mask
        is_fixed[:values_at] = False
        mask = _mask(is_fixed)
        self._fixed_at = np.flatnonzero(mask)
        self._fixed_mask = mask[self._fixed_at]
        self._fixed = self.stack([payload])[0, self._fixed_at] & self._fixed_mask
        self.chip = {cut.name: _bytes_of(cut) for cut in template.cuts if cut.is_chip}
        self.instance = {cut.name: _bytes_of(cut) for cut in template.cuts if not cut.is_chip}
        """Bytes of each column's values in a frame, in its order."""
        self._record = np.dtype(
            {
                "names": [cut.name for cut in template.cuts],
                "formats": [f"V{_bytes_of(cut)}" for cut in template.cuts],
                "offsets": [cut.at for cut in template.cuts],
                "itemsize": self._words * _WORD,
            }
        )
        self._limited = [
            (cut.at, cut.at + _bytes_of(cut), cut.dtype, metric.limit_code)
            for cut in template.cuts
            if (metric := BY_NAME[cut.name]).limit_code < metric.top - 1
        ]
        self._places = {cut.name: (cut.at, cut.at + _bytes_of(cut)) for cut in template.cuts}

    def stack(self, payloads: Sequence[bytes]) -> NDArray[np.uint64]:
        """Return frames of the form's size as rows of words."""
        joined = self._pad.join([*payloads, b""]) if self._pad else b"".join(payloads)
        return np.frombuffer(joined, np.uint64).reshape(-1, self._words)

    def heads(self, frames: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the constant parts of later frames of the same topics."""
        return frames[:, : self.head_words] & self._head_mask

    def begin(self, frames: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return a mask of frames that begin like the template.

        Path, boot, number and time may differ.
        """
        alike: NDArray[np.bool_] = (
            (frames[:, : self.head_words] & self._structure_mask) == self._structure
        ).all(axis=1)
        return alike

    def fit(self, frames: NDArray[np.uint64], expected: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return a mask of frames as expected: head by head, and the structure after it.

        Args:
            frames: As `stack` returns them.
            expected: The head required of each.
        """
        wrong = (self.heads(frames) != expected).any(axis=1)
        rest = frames[:, self._fixed_at]
        rest &= self._fixed_mask
        wrong |= (rest != self._fixed).any(axis=1)
        fit: NDArray[np.bool_] = ~wrong
        return fit

    def numbers(
        self, frames: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return number and source time of each frame, and whether both are in their range."""
        content = frames.view(np.uint8)
        seq, ts_ns = (
            np.ascontiguousarray(content[:, at : at + 8]).view(">u8").reshape(-1).astype(np.int64)
            for at in (self._seq_at, self._ts_at)
        )
        return seq, ts_ns, (seq >= 0) & (ts_ns >= 0) & (ts_ns <= LATEST_NS)

    def impossible(self, frames: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return a mask of frames with a code above its metric's limit.

        The code for "not available" is allowed. Columns are those of the metric table.
        """
        content = frames.view(np.uint8)
        mask = np.zeros(len(frames), np.bool_)
        for first, stop, dtype, most in self._limited:
            codes = np.ascontiguousarray(content[:, first:stop]).view(dtype)
            if is_above(codes, most):
                mask |= ((codes > most) & (codes != np.iinfo(dtype).max)).any(axis=1)
        return mask

    def records(self, frames: NDArray[np.uint64]) -> NDArray[Any]:
        """Return the values of each frame by their columns' names, as plain bytes."""
        return frames.reshape(-1).view(self._record)

    def silent(
        self, frames: NDArray[np.uint64], columns: dict[str, int], rows: int
    ) -> NDArray[np.bool_]:
        """Return a mask of frames with a row without any value.

        Each of its codes is "not available": all bits set.

        Args:
            frames: As `stack` returns them.
            columns: `chip` or `instance`.
            rows: Rows of a frame in them.
        """
        content = frames.view(np.uint8)
        silent: NDArray[np.bool_] | None = None
        for name in columns:
            first, stop = self._places[name]
            missing = content[:, first:stop] == 0xFF
            # As a rule the first column has all its values.
            if not missing.any():
                return np.zeros(len(frames), np.bool_)
            of_rows = missing.reshape(len(frames), rows, -1).all(axis=2)
            silent = of_rows if silent is None else silent & of_rows
            if not silent.any():
                return np.zeros(len(frames), np.bool_)
        mask: NDArray[np.bool_] = np.zeros(len(frames), np.bool_)
        if silent is not None:
            mask |= silent.any(axis=1)
        return mask


def _bytes_of(cut: Cut) -> int:
    return int(cut.size * cut.dtype.itemsize)


def _mask(chosen: NDArray[np.bool_]) -> NDArray[np.uint64]:
    return np.where(chosen, 0xFF, 0).astype(np.uint8).view(np.uint64)
