from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from trnfleet import config
from trnfleet.domain.fleet import FleetFile
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = "some"
    size: int = 1


class Hammer(BaseModel):
    kind: Literal["hammer"]


class Saw(BaseModel):
    kind: Literal["saw"]
    teeth: int = 9


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    kind: Literal["a", "b"] = "a"
    parts: tuple[Inner, ...] = ()
    tools: Annotated[
        tuple[Annotated[Hammer | Saw, Field(discriminator="kind")], ...], Field(min_length=1)
    ] = (Hammer(kind="hammer"),)


def write(folder: Path, text: str | bytes) -> Path:
    file = folder / "f.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def test_good_file(tmp_path: Path) -> None:
    """A valid file becomes the model, arrays as tuples."""
    model = config.load_model(write(tmp_path, 'name = "x"\n[[parts]]\nsize = 3'), Model)
    assert model == Model(name="x", parts=(Inner(size=3),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('nme = "x"', "key 'name' is missing (and 1 more)"),
        ('name = "x"\nkidn = "a"', "unknown key 'kidn': did you mean 'kind'?"),
        ('name = "x"\n[[parts]]\nsiez = 1', "unknown key 'parts.0.siez': did you mean 'size'?"),
        (
            'name = "x"\n[[parts]]\n[[parts]]\nname = "fan"\nsiez = 1',
            "f.toml: in 'fan': unknown key 'parts.1.siez': did you mean 'size'?",
        ),
        ('name = "x"\n[[parts]]\nname = 7', "f.toml: parts.0.name = 7:"),
        ("name = 5", "name = 5:"),
        ('name = "x"\nkind = "c"', "kind = 'c':"),
        ('name = "x"\ntools = []', "tools = []: "),
        ('name = "x"\n[[tools]]\nkind = "hamer"', "tools.0.kind = 'hamer': did you mean 'hammer'?"),
        ('name = "x"\n[[tools]]\nteeth = 3', "key 'tools.0.kind' is missing"),
        ("name = ", "not valid TOML"),
        (b"name = '\xff'", "not valid TOML"),
    ],
)
def test_bad_files(tmp_path: Path, text: str | bytes, said: str) -> None:
    """A bad file is refused on one line with name, key and remedy."""
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        config.load_model(file, Model)
    assert str(caught.value).startswith(f"{file}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_invalid_entry_of_a_list_is_one_error(tmp_path: Path) -> None:
    """The list is not counted as too short besides."""
    with pytest.raises(ConfigError, match=r"tools\.0\.saw\.teeth = 'nine': [^(]*$"):
        config.load_model(
            write(tmp_path, 'name = "x"\n[[tools]]\nkind = "saw"\nteeth = "nine"'), Model
        )


def test_names_and_paths(tmp_path: Path) -> None:
    """A shipped name resolves from anywhere, a path is used as is.

    A wrong name names the nearest.
    """
    assert config.find_file("fleets", "demo").name == "demo.toml"
    own = write(tmp_path, "")
    assert config.find_file("fleets", str(own)) == own
    with pytest.raises(ConfigError, match="did you mean 'demo'"):
        config.find_file("fleets", "dmeo")
    with pytest.raises(ConfigError, match="no such file"):
        config.find_file("fleets", str(tmp_path / "none.toml"))


@pytest.mark.parametrize("name", config.shipped_names("fleets"))
def test_shipped_fleets_are_valid(name: str) -> None:
    """Every fleet that ships loads."""
    assert config.load_model(config.find_file("fleets", name), FleetFile).title


def test_an_unreadable_file(tmp_path: Path) -> None:
    """A folder is no file."""
    with pytest.raises(ConfigError, match="cannot be read"):
        config.load_toml(tmp_path)


def test_the_settings_file_is_toml() -> None:
    """The commented settings file parses."""
    file = config.shipped_folder(".").resolve() / "trnfleet.toml"
    assert tomllib.loads(file.read_text())["simulate"]["fleet"] == "demo"
