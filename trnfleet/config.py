"""User-written TOML files, found by name or path and validated against a model.

Errors are one line. Shipped files (`config/` in the source tree, `trnfleet/_config` in the wheel)
resolve by name from any folder.
"""

from __future__ import annotations

import re
import tomllib
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trnfleet.errors import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

_QUOTED = re.compile(r"'([^']*)'")
"""One of the choices in an error of pydantic's."""
_PACKAGE = Path(__file__).resolve().parent

ModelT = TypeVar("ModelT", bound="BaseModel")


def shipped_folder(kind: str) -> Path:
    """Return the folder of the shipped files of a kind, such as `fleets`."""
    installed = _PACKAGE / "_config"
    root = installed if installed.is_dir() else _PACKAGE.parent / "config"
    return root / kind


def shipped_names(kind: str) -> list[str]:
    """Return the names valid without a path, sorted."""
    return sorted(path.stem for path in shipped_folder(kind).glob("*.toml"))


def find_file(kind: str, name: str) -> Path:
    """Return the file for `name`.

    It is a path if it has the form of one or exists, else a shipped file.

    Raises:
        ConfigError: there is no such file; the message names the nearest shipped one.
    """
    given = Path(name)
    try:
        is_there = given.is_file()
    except OSError:  # such as a name that is too long
        is_there = False
    if given.suffix == ".toml" or "/" in name or is_there:
        if is_there:
            return given
        raise ConfigError(f"{name}: no such file; shipped {kind}: {', '.join(shipped_names(kind))}")
    shipped = shipped_folder(kind) / f"{name}.toml"
    if name not in shipped_names(kind):
        raise ConfigError(
            f"no file in {kind} is called {name!r}: {nearest(name, shipped_names(kind))}"
        )
    return shipped


def load_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ConfigError: it cannot be read, is not UTF-8 or is not TOML. The message has the place.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: not valid TOML: nested too deeply") from error


def load_model(path: Path, model: type[ModelT]) -> ModelT:
    """Read a TOML file into a model.

    Raises:
        ConfigError: the file is invalid. The message names the key, the value and the valid ones.
    """
    return validate(load_toml(path), model, str(path))


def validate(data: Mapping[str, Any], model: type[ModelT], where: str) -> ModelT:
    """Validate parsed data against a model.

    `where` (a file's name) begins an error's message.

    Raises:
        ConfigError: the data is invalid.
    """
    from pydantic import (  # noqa: PLC0415  who has a model has it; finding and parsing files need none
        ValidationError,
    )

    try:
        return model.model_validate(_tuples(data))
    except ValidationError as error:
        problems = [
            problem
            for problem in error.errors(include_url=False)
            # A list is also called too short when its entries are invalid.
            if problem["type"] != "too_short"
            or len(problem["input"]) == problem["ctx"]["actual_length"]
        ]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        owner = _owner(data, problems[0]["loc"])
        raise ConfigError(f"{where}: {owner}{_explain(problems[0], model)}{more}") from error


def _tuples(value: Any) -> Any:
    """Turn lists into tuples for frozen models."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value


def _lists(value: Any) -> Any:
    """Turn tuples back into lists, as in the file."""
    return [_lists(item) for item in value] if isinstance(value, tuple) else value


def _explain(problem: ErrorDetails, model: type[BaseModel]) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = _keys_at(model, problem["loc"][:-1])
        return f"unknown key {place!r}: {nearest(str(problem['loc'][-1]), known)}"
    if problem["type"] == "missing":
        return f"key {place!r} is missing"
    if problem["type"] == "union_tag_not_found":
        return f"key '{place}.{_bare(problem['ctx']['discriminator'])}' is missing"
    if problem["type"] == "union_tag_invalid":
        context = problem["ctx"]
        tags = map(_bare, context["expected_tags"].split(", "))
        return (
            f"{place}.{_bare(context['discriminator'])} = {context['tag']!r}:"
            f" {nearest(context['tag'], tags)}"
        )
    message = _message(problem)
    given = problem["input"]
    # The message of a check of a whole table names its subject itself.
    if not place or (isinstance(given, dict) and problem["type"] == "value_error"):
        return f"{place}: {message}" if place else message
    value = given.isoformat() if isinstance(given, date | time) else repr(_lists(given))
    return f"{place} = {value if len(value) <= 80 else value[:77] + '...'}: {message}"


def _message(problem: ErrorDetails) -> str:
    """Return the problem of a value, with the nearest valid choice if there are few."""
    if problem["type"] in {"literal_error", "enum"} and isinstance(problem["input"], str):
        return nearest(problem["input"], _QUOTED.findall(problem["ctx"]["expected"]))
    if problem["type"] == "too_short":
        return f"at least {problem['ctx']['min_length']} is needed"
    return problem["msg"].removeprefix("Value error, ")


def _bare(quoted: str) -> str:
    """Return a name without pydantic's quotes."""
    return quoted.strip("'")


def _owner(data: Mapping[str, Any], place: tuple[int | str, ...]) -> str:
    """Return the name of the innermost listed table around a place, such as a rule's.

    Empty if it has no name.
    """
    owner = ""
    value = data
    for part in () if place[-1:] == ("name",) else place:
        try:
            value = value[part]  # type: ignore[index]  # a place may name a kind of table, which is no key
        except (KeyError, IndexError, TypeError):
            break
        name = value.get("name") if isinstance(part, int) and isinstance(value, dict) else None
        owner = f"in {name!r}: " if isinstance(name, str) else owner
    return owner


def _keys_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """Return the valid keys at a place inside a model, through tuples and tagged unions."""
    models = [model]
    for part in place:
        below: list[type[BaseModel]] = []
        for variant in models:
            if isinstance(part, str) and part in variant.model_fields:
                below.extend(_models_in(variant.model_fields[part].annotation))
            elif isinstance(part, str):
                below.extend([variant] if _is_tagged(variant, part) else [])
            else:
                below.append(variant)
        models = below or models
    return sorted(
        {field.alias or key for variant in models for key, field in variant.model_fields.items()}
    )


def _is_tagged(model: type[BaseModel], tag: str) -> bool:
    kind = model.model_fields.get("kind")
    return kind is None or tag in getattr(kind.annotation, "__args__", ())


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    from pydantic import BaseModel  # noqa: PLC0415  as in `validate`

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in getattr(annotation, "__args__", ()) for model in _models_in(part)]
