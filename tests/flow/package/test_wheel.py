"""Contents of wheel and sdist, and the installed program away from the tree.

The long twin of the last test installs the locked dependencies, too, for each installed Python.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import subprocess
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from support.fake_host import EC2_ID, FakeHost
from support.package import AGENT_LOCK, LOCK, Built, Installed, build, build_wheel_of_tree
from support.paths import ROOT
from support.processes.mosquitto import free_port
from support.processes.programs import COMMAND, environment

from trnfleet import __version__

if TYPE_CHECKING:
    from pathlib import Path

SIMULATE = ("simulate", "--stdout", "--ticks", "2", "--seed", "7")
DATA = f"trnfleet-{__version__}.data/data"
INFO = f"trnfleet-{__version__}.dist-info"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build the package once."""
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install the wheel once, with the dependencies of the suite."""
    found = Installed(tmp_path_factory.mktemp("installed") / "venv")
    found.install("--no-deps", "--no-index", str(built.wheel))
    found.borrow_dependencies()
    return found


def pythons() -> list[str]:
    """Return the installed interpreters the project supports.

    A pyenv shim may exist without its interpreter.
    """
    return [
        name
        for name in ("python3.11", "python3.12", "python3.13")
        if shutil.which(name)
        and subprocess.run([name, "-c", "import venv"], check=False, capture_output=True).returncode
        == 0
    ]


def test_the_wheel_has_everything_inside(built: Built) -> None:
    """Modules and shipped files are those of the tree; nothing of the tests is there."""
    tree = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "trnfleet").rglob("*")
        if path.is_file()
    }
    tree = {name for name in tree if "__pycache__" not in name}
    config = {
        path.relative_to(ROOT / "config").as_posix()
        for path in (ROOT / "config").rglob("*")
        if path.is_file()
    }
    with zipfile.ZipFile(built.wheel) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"{INFO}/METADATA").decode()
    beside = {
        f"{INFO}/{name}"
        for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    beside.add(f"{DATA}/share/man/man1/trnfleet.1")
    beside |= {
        f"{DATA}/lib/systemd/system/{path.name}" for path in (ROOT / "config" / "systemd").iterdir()
    }
    assert names == tree | {f"trnfleet/_config/{name}" for name in config} | beside
    assert "trnfleet/py.typed" in names
    description = metadata.partition("\n\n")[2]
    assert description.startswith("# trnfleet\n")
    assert "![" not in description
    assert "](docs/" not in description


def test_the_sdist_makes_the_same_wheel_as_the_tree(built: Built, tmp_path: Path) -> None:
    """Builds are reproducible, and the sdist is complete without test recordings."""
    assert digest(built.wheel) == digest(build_wheel_of_tree(tmp_path))
    with tarfile.open(built.sdist) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    assert not tops & {"tests", "lab", "fixtures"}
    assert {"LICENSE", "CHANGELOG.md", "docs"} <= tops
    assert built.sdist.stat().st_size < 2**21


def test_the_installed_program_works_from_any_folder(installed: Installed, tmp_path: Path) -> None:
    """With an empty or read-only home, the output is the same as from the tree."""
    check_program(installed, tmp_path)


def test_an_agent_runs_with_its_own_packages_alone(built: Built, tmp_path: Path) -> None:
    """Its lock is a part of the whole one."""
    program = Installed(tmp_path / "venv")
    program.install("--no-deps", "--no-index", str(built.wheel))
    program.link_dependencies(AGENT_LOCK)
    whole, own = (
        set(re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip()))
        for lock in (LOCK, AGENT_LOCK)
    )
    assert own < whole
    host = FakeHost(tmp_path / "host")
    (program.folder / "bin" / "neuron-monitor").symlink_to(host.programs / "neuron-monitor")
    real = ("--host-root", str(host.root), "--imds", "none")

    lines = program.run("agent", "--name", "lab", "--once", "--stdout", *real).splitlines()

    descriptor, instance, *chips = map(json.loads, lines)
    assert descriptor["path"] == f"uc1/standalone/{EC2_ID}"
    assert instance["vcpu_util_pct"] > 0
    assert len(chips) == 16
    findings = json.loads(program.run("doctor", "--agent", "--json", *real))["findings"]
    assert [each["name"] for each in findings if each["health"] == "problem"] == []


@pytest.mark.long
def test_full_installs_work_on_every_python_that_is_there(built: Built, tmp_path: Path) -> None:
    """The wheel with the locked dependencies, with their hashes, in empty environments."""
    found = pythons()
    assert found
    for python in found:
        program = Installed(tmp_path / python, python)
        program.install("--require-hashes", "-r", str(LOCK))
        program.install("--no-deps", "--no-index", str(built.wheel))
        check_program(program, tmp_path)


def check_program(program: Installed, folder: Path) -> None:
    """Run the commands without a broker, and the broker itself."""
    versions = json.loads(program.run("--version", "--json"))
    assert versions["version"] == __version__
    assert versions["dependencies"]["numpy"]
    assert b"demo" in program.run("fleet", "list", home=folder)
    shipped = [
        str(path)
        for kind in ("alerts", "fleets", "scenarios")
        for path in sorted(
            next(program.folder.glob("lib/python3*/site-packages/trnfleet/_config")).glob(
                f"{kind}/*.toml"
            )
        )
        if path.stem != "rainier-1m"
    ]
    assert program.run("check", *shipped).count(b": valid") == len(shipped) > 20
    from_tree = subprocess.run(
        [*COMMAND, *SIMULATE], check=True, capture_output=True, env=environment()
    ).stdout
    assert program.run(*SIMULATE) == from_tree
    broker = subprocess.Popen(
        ["trnfleet", "broker", "--port", str(free_port())],
        executable=f"{program.folder}/bin/trnfleet",
        env=program.environment(folder),
        stderr=subprocess.PIPE,
    )
    assert broker.stderr is not None
    with broker:
        assert b"loopback only" in broker.stderr.readline()
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(timeout=10) == 0


def digest(file: Path) -> str:
    """Return the digest of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()
