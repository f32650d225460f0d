"""Folders of the repository, for tests of shipped files."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config"
FIXTURES = ROOT / "fixtures"
SCENARIOS = CONFIG / "scenarios"
