"""Options of `trnfleet watch`, and wrong use."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from trnfleet.cli.commands.watch import command
from trnfleet.domain.site import Site
from trnfleet.errors import ConfigError
from trnfleet.services.watch import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            ["--alertmanager", "am:9093"],
            "'--alertmanager' (env var: 'TRNFLEET_ALERTMANAGER'): not a URL",
        ),
        (["--webhook", "ftp://u:secret@h"], "'--webhook' (env var: 'TRNFLEET_WEBHOOK'): not a URL"),
        (["--exec", "no-such-program-here"], "no such program"),
        (["--rules", "no-such-rules"], "no-such-rules"),
        (["--owner", "x"], "--owner"),
        (["--exit-on", "fatal"], "fatal"),
    ],
)
def test_wrong_use_is_told_in_one_line(tmp_path: Path, option: list[str], said: str) -> None:
    """Wrong use is refused before any connection, without showing a password."""
    file = tmp_path / "rules.toml"
    file.write_text(
        '[[rules]]\nname = "down"\nscope = "publisher"\nseverity = "info"\nfigure = "state"\nequals'
        ' = "offline"\nsummary = "x"\n'
    )
    rules = [] if option[0] == "--rules" else ["--rules", str(file)]
    result = CliRunner().invoke(command, ["--broker", "mqtt://127.0.0.1:1", *rules, *option])
    assert said in f"{result.output}{result.exception}"
    assert "secret" not in f"{result.output}{result.exception}"


def test_rules_use_the_given_prices_limits_and_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of the app: the same hours are slow, and cost the same."""
    sites: list[Site] = []

    def monitor_fleet(*_: Any, site: Site, **__: Any) -> None:
        sites.append(site)
        raise ConfigError("that is enough")

    monkeypatch.setattr(run, "monitor_fleet", monitor_fleet)
    options = ["--broker", "mqtt://127.0.0.1:1", "--name", "demo", "--pue", "1.2"]
    options += ["--ttft-limit", "300ms", "--tpot-limit", "50ms", "--price", "trn2.48xlarge=36"]
    CliRunner().invoke(command, [*options, "--power-cap", "fleet=9kW"])
    prices = (("trn2.48xlarge", Decimal(36)),)
    assert sites == [Site(1.2, 0.3, 0.05, prices, (("fleet", 9_000.0),))]
