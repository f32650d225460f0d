"""The keys of actions by name, which a settings file can change, and their labels.

`KEYS` has the shipped keys. `bind` makes every binding, so that its name is the binding's id. All
texts that show a key read it by `key_label`. Keys without a name are fixed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.binding import Binding
from textual.keys import _character_to_key

from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = {
    "reservation": "r",
    "clear-highlight": "u",
    "alerts": "A",
    "sources": "p",
    "help": "question_mark",
    "quit": "q",
    "quit-anywhere": "ctrl+q",
    "theme": "ctrl+t",
    "longer-charts": "v",
    "shorter-charts": "V",
    "suspend": "ctrl+z",
    "palette": "ctrl+p",
    "snapshot": "ctrl+s",
    "acknowledge": "a",
    "silence": "z",
    "compare": "c",
    "copy-address": "y",
    "copy-row": "Y",
    "last-view": "minus",
    "next-fleet": "f",
    "back-10s": "left_square_bracket",
    "forward-10s": "right_square_bracket",
    "back-1m": "left_curly_bracket",
    "forward-1m": "right_curly_bracket",
    "back-1s": "comma",
    "forward-1s": "full_stop",
    "pause": "space",
    "slower": "less_than_sign",
    "faster": "greater_than_sign",
    "previous-alert": "left_parenthesis",
    "next-alert": "right_parenthesis",
    "previous-mark": "ctrl+left",
    "next-mark": "ctrl+right",
    "go-to-time": "at",
    "live": "end",
    "start": "ctrl+home",
    "loop": "L",
    "save-past": "W",
    # Of several views
    "left": "left,h",
    "right": "right,l",
    "up": "up,k",
    "down": "down,j",
    "page-up": "pageup",
    "page-down": "pagedown",
    "first": "home,g",
    "last": "end,G",
    "filter": "slash",
    "sort": "s",
    "next-tab": "t,tab",
    "previous-tab": "T,shift+tab",
    "zoom-in": "plus,equals_sign",
    "zoom-out": "underscore",
    "moment": "o",
    # Fleet
    "next-pane": "w,tab",
    "silenced": "S",
    "whole-fleet": "0",
    "next-metric": "m",
    "previous-metric": "M",
    "full-range": "F",
    # Hierarchy
    "open-all": "x",
    "open-level": "asterisk",
    "reverse-sort": "S",
    # Topology
    "other-end": "b",
    "colour": "m",
    "next-instance": "n",
    "previous-instance": "N",
    "fleet-links": "underscore",
    # Chip
    "next-chip": "right,n",
    "previous-chip": "left,N",
    # Jobs, Power and Reservations
    "job-details": "t,tab",
    "money": "dollar_sign",
    "group": "g",
    "now": "n",
    # Alerts
    "open-group": "e",
    "open-groups": "E",
    "take-back": "x",
    "details": "d",
    # Orders
    "sort-name": "N",
    "sort-state": "O",
    "sort-nc-util": "U",
    "sort-hbm-bw": "B",
    "sort-links": "K",
    "sort-power": "P",
    "sort-temperature": "T",
    "sort-throttling": "R",
    "sort-mfu": "M",
    "sort-lost": "L",
    "sort-goodput": "U",
    "sort-chips": "C",
    "sort-next-event": "N",
    "sort-idle-cost": "C",
    "sort-utilisation": "U",
    "sort-id": "I",
    "sort-closest-to-cap": "H",
    "sort-hottest": "T",
    "sort-tflops-w": "E",
    "sort-severity": "S",
    "sort-age": "D",
    "sort-place": "P",
}
"""Shipped keys by the names of actions, as Textual spells them."""
_LABELS = {
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "enter": "Enter",
    "escape": "Esc",
    "tab": "Tab",
    "plus": "+",
    "minus": "-",
    "underscore": "_",
    "colon": ":",
    "equals_sign": "=",
    "question_mark": "?",
    "dollar_sign": "$",
    "slash": "/",
    "asterisk": "*",
    "space": "Space",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "left_parenthesis": "(",
    "right_parenthesis": ")",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "comma": ",",
    "full_stop": ".",
    "at": "@",
    "backspace": "Backspace",
    "insert": "Ins",
    "delete": "Del",
    **{_character_to_key(sign): sign for sign in "!\"#%&';\\^`|~"},
    **{f"f{number}": f"F{number}" for number in range(1, 25)},
}
_now = dict(KEYS)


def use(mapped: Mapping[str, str]) -> dict[str, str]:
    """Use these keys instead of the shipped ones, and return them as a keymap of Textual.

    Textual drops other bindings of a mapped key, so their names are in it, too. Such a pair does
    the same: quit on Ctrl-q.
    """
    _now.update(KEYS | dict(mapped))
    return {name: key for name, key in _now.items() if name in mapped or key in mapped.values()}


def keys_of(name: str) -> str:
    """Return the keys of an action, with commas between; a fixed key is its own name."""
    return _now.get(name, name)


def key_label(name: str) -> str:
    """Return the label of an action's first key."""
    return key_text(first_key(name))


def first_key(name: str) -> str:
    """Return the first key of an action."""
    return keys_of(name).split(",")[0]


def bind(name: str, action: str, words: str = "", **options: Any) -> Binding:
    """Return the binding of a named action, or of a fixed key."""
    return Binding(KEYS.get(name, name), action, words, id=name, **options)


def mapped(binding: Binding) -> Binding:
    """Return a binding of `bind` with the keys in use."""
    return binding.with_key(keys_of(binding.id)) if binding.id else binding


def key_text(keys: str) -> str:
    """Return keys as labelled on a keyboard, such as `↑ k` for `up,k`."""
    return " ".join(map(_label, keys.split(",")))


def _label(key: str) -> str:
    *modifiers, own = key.split("+")
    return "".join(f"{modifier.capitalize()}-" for modifier in modifiers) + _LABELS.get(own, own)


def parsed(value: object) -> str:
    """Return keys of a settings file, with commas between, as Textual spells them.

    Raises:
        ConfigError: there is no such key.
    """
    sent = [keys for keys in ANSI_SEQUENCES_KEYS.values() if type(keys) is tuple]
    known = {key.value for keys in sent for key in keys if not key.value.startswith("<")}
    known |= {_character_to_key(chr(code)) for code in range(ord(" "), ord("~") + 1)}
    spelled = {key_text(key): key for key in known} | {key: key for key in known}
    given = value if value == "," else [key.strip() for key in str(value).split(",")]
    for key in given:
        if key not in spelled:
            raise ConfigError(f"no such key: {nearest(key, spelled)}")
    return ",".join(spelled[key] for key in given)
