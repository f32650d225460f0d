"""The built package: sdist and wheel, and virtual environments to install them in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

from support.paths import ROOT

LOCK = ROOT / ".ci" / "requirements.txt"
AGENT_LOCK = ROOT / "config" / "agent" / "requirements.txt"
NO_HOME = "/proc/nonexistent"
"""A home that not even root can make."""


class Built(NamedTuple):
    """What was built."""

    sdist: Path
    wheel: Path
    """Made from the unpacked sdist."""


def build(folder: Path) -> Built:
    """Build the sdist from the tree, and the wheel from the sdist.

    The build tools are those of this environment.
    """
    sdist = _hatchling("sdist", ROOT, folder)
    # No tarfile: its filters came with Python 3.11.4, and Debian 12 has 3.11.2.
    subprocess.run(["tar", "-xf", str(sdist), "-C", str(folder)], check=True)
    return Built(sdist, _hatchling("wheel", folder / sdist.name.removesuffix(".tar.gz"), folder))


def build_wheel_of_tree(folder: Path) -> Path:
    """Build the wheel from the tree itself."""
    return _hatchling("wheel", ROOT, folder)


def _hatchling(target: str, source: Path, folder: Path) -> Path:
    command = (sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder))
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return next(folder.glob("*.tar.gz" if target == "sdist" else "*.whl"))


class Installed:
    """A virtual environment with the wheel in it, and nothing of the tree."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.python = str(folder / "bin" / "python")
        subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)

    def install(self, *arguments: str) -> None:
        """Install with the pip of this environment."""
        pip = (
            sys.executable,
            "-m",
            "pip",
            "--python",
            self.python,
            "install",
            "-qq",
            "--no-compile",
        )
        subprocess.run([*pip, *arguments], check=True, cwd=self.folder, capture_output=True)

    def borrow_dependencies(self) -> None:
        """Add the suite interpreter's dependencies to the path.

        The source tree, there through a .pth file, is not found.
        """
        [site_packages] = self.folder.glob("lib/python3*/site-packages")
        borrowed = next(Path(each) for each in sys.path if each.endswith("site-packages"))
        (site_packages / "borrowed.pth").write_text(f"{borrowed}\n")

    def link_dependencies(self, lock: Path) -> None:
        """Link the packages of a lock, and no others, from the suite's environment."""
        [site_packages] = self.folder.glob("lib/python3*/site-packages")
        for name in re.findall(r"^([\w-]+)==", lock.read_text(encoding="utf-8"), re.MULTILINE):
            package = distribution(name)
            for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
                (site_packages / top).symlink_to(Path(str(package.locate_file(top))))

    def environment(self, home: Path | str) -> dict[str, str]:
        """Return the variables of a new user's login shell, and no others."""
        return {"PATH": f"{self.folder}/bin:{os.defpath}", "HOME": str(home), "LANG": "C.UTF-8"}

    def run(self, *arguments: str, home: Path | str = NO_HOME, timeout_s: float = 60) -> bytes:
        """Run a command of the installed program, and return its stdout.

        It runs in the environment's folder.
        """
        result = subprocess.run(
            ["trnfleet", *arguments],
            executable=shutil.which("trnfleet", path=f"{self.folder}/bin"),
            env=self.environment(home),
            cwd=self.folder,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        assert result.returncode == 0, result.stderr.decode()
        return result.stdout
