"""Texts of messages written to the screen without `plain`, found in the source.

A message's field is searched by its name alone, in texts and as a text with a style. Values passed
through variables or functions are not followed: `tests/tui/` tests with hostile messages that
nothing raw arrives on the screen.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from typing import TYPE_CHECKING, get_type_hints

import msgspec
from support.paths import ROOT

import trnfleet.wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TUI = ROOT / "trnfleet" / "tui"
OWN = {
    "self",
    "field",
    "section",
    "tab",
    "entry",
    "plan",
    "limit",
    "color",
    "HEALTH",
    "binding",
    "active",
}
"""Names of the program's own objects, with titles, names and states of its own."""
MARKUP = {"Static", "Label", "DataTable", "Markdown", "RichLog", "Pretty", "from_markup", "notify"}
"""Widgets and calls of Textual and Rich that draw markup and escapes. Views draw texts with styles
instead."""
PLAIN_ALREADY = {
    "app/palette.py: alert.rule.name": (
        "the palette makes candidates plain, and searches them as they are"
    ),
    "alerts/details.py: past.place": "an address of the layout, whose segments are checked",
    "alerts/details.py: past.title": "a field's title",
    "alerts/details.py: error.kind": "one of two kinds by which errors are chosen",
    "alerts/rows.py: item.alert.name": "a key of a group, never shown",
    "bars/status.py: figure.text": "words of the program, or made plain where they are made",
    "chip/panels.py: mark.note": "made plain where it is made",
    "chip/view.py: facts.job": "`Descriptions` has plain names",
    "format/power.py: column.title": "a title of the program",
    "format/power.py: price.currency": "a person's own setting: three letters",
    "format/alerts.py: held.alert.name": "a part of a line that is made plain as a whole",
    "format/alerts.py: transition.kind": "a kind of the program",
    "events/rates.py: inputs.note": "a span in words",
    "jobs/details.py: row.title": "made plain where it is made",
    "power/view.py: inputs.note": "a span in words",
    "power/view.py: price.currency": "a person's own setting: three letters",
    "topology/torus.py: kind.name": "a type of the catalogue",
    "topology/view.py: counts.text": "words of the program",
    "topology/view.py: fleet.text": "words of the program",
    "topology/view.py: kind.name": "a type of the catalogue",
    "topology/view.py: row.text": "an address of the layout, whose segments are checked",
    "state/alerts.py: alert.name": "a part of a line that is made plain as a whole",
    "state/alerts.py: alert.target": "a part of a line that is made plain as a whole",
    "state/leases.py: lease.reason": "made plain where the answer is taken",
    "app/rows.py: mark.name": "made plain by its property",
    "bars/header.py: mean.seconds": "a number",
    "charts/place.py: BY_KEY[key].title": "of the table of metrics",
    "charts/place.py: state.text": "a freshness in words",
    "charts/stack.py: layer.name": "the name of a series, already plain",
}
"""Texts without need for `plain`, each with the reason."""


def wire_fields() -> set[str]:
    """Return the names of the texts of all messages."""
    modules = [
        importlib.import_module(each.name)
        for each in pkgutil.walk_packages(trnfleet.wire.__path__, "trnfleet.wire.")
    ]
    models = [
        each
        for module in modules
        for each in vars(module).values()
        if inspect.isclass(each)
        and issubclass(each, msgspec.Struct)
        and each.__module__ == module.__name__
    ]
    return {name for model in models for name in text_fields(model)}


def text_fields(model: type[msgspec.Struct]) -> set[str]:
    """Return the names of a message's texts."""
    names = model.__struct_fields__
    hints = get_type_hints(model)
    return {name for name in names if "str" in str(hints[name])}


def raw_texts(path: Path, fields: set[str]) -> Iterator[str]:
    """Yield attributes with names of message texts, used raw.

    Uses are in a text or with a style.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        found: list[ast.expr] = []
        if isinstance(node, ast.JoinedStr):
            found = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
        elif (
            isinstance(node, ast.Tuple)
            and len(node.elts) == 2
            and ast.unparse(node.elts[1]).startswith("theme.")
        ):
            found = node.elts[:1]
        for each in found:
            if isinstance(each, ast.Attribute) and each.attr in fields:
                text = ast.unparse(each)
                if text.partition(".")[0] not in OWN:
                    yield text


def test_texts_of_messages_are_made_plain_where_they_are_written() -> None:
    """Every raw use has a reason, and every reason has a use."""
    fields = wire_fields()
    assert {"job", "text", "owner", "ec2_id", "reason", "zone"} <= fields
    found = {
        f"{path.relative_to(TUI).as_posix()}: {text}"
        for path in sorted(TUI.rglob("*.py"))
        for text in raw_texts(path, fields)
    }
    assert found == PLAIN_ALREADY.keys()


def test_nothing_is_drawn_with_markup() -> None:
    """No markup is drawn.

    A bracket in a job's name would be a style, and a link could run an action.
    """
    used = {
        f"{path.relative_to(TUI).as_posix()}: {name}"
        for path in sorted(TUI.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (name := ast.unparse(node.func).rpartition(".")[2]) in MARKUP
    }
    assert used == set()


def test_a_raw_text_is_found(tmp_path: Path) -> None:
    module = tmp_path / "view.py"
    module.write_text(
        'parts = [(event.text, theme.BASE), (plain(event.text), theme.BASE)]\ntitle = f"{job.state}'
        ' {plain(job.job)}"\n',
        encoding="utf-8",
    )
    assert sorted(raw_texts(module, wire_fields())) == ["event.text", "job.state"]
