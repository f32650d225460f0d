"""What every test of the app stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from trnfleet.tui import theme

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw in full colour, whatever terminal the tests run in, and leave no other theme to the next test."""
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield
    theme.use(theme.DEFAULT, ascii_only=False)
