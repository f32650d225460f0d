"""Fixtures for every test of the app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from textual.cache import LRUCache
from textual.css.stylesheet import Stylesheet

from trnfleet.tui import theme

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.css.model import RuleSet


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Draw in full colour in any terminal, and reset the theme after the test."""
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield
    theme.use(theme.DEFAULT, ascii_only=False)


@pytest.fixture(scope="session", autouse=True)
def _one_parse_of_a_style_sheet() -> Iterator[None]:
    """Parse a style sheet once per set of theme variables, not once per app.

    Rules are never modified.
    """
    parsed: dict[frozenset[tuple[str, str]], LRUCache[tuple[Any, ...], list[RuleSet]]] = {}

    def share(sheet: Stylesheet) -> None:
        sheet._parse_cache = parsed.setdefault(frozenset(sheet._variables.items()), LRUCache(1_000))

    def init(sheet: Stylesheet, **options: Any) -> None:
        make(sheet, **options)
        share(sheet)

    def set_variables(sheet: Stylesheet, variables: dict[str, str]) -> None:
        sheet._parse_cache = LRUCache(1)
        change(sheet, variables)
        share(sheet)

    make, change = Stylesheet.__init__, Stylesheet.set_variables
    with (
        mock.patch.object(Stylesheet, "__init__", init),
        mock.patch.object(Stylesheet, "set_variables", set_variables),
    ):
        yield
