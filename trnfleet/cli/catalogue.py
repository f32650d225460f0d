"""The table of faults as `trnfleet inject --list` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trnfleet.domain.faults import FAULTS

if TYPE_CHECKING:
    from trnfleet.domain.faults import Fault

TARGETS = {
    "chip": "uc1/us-0001/trn2u-0001-2/chip05",
    "link": "uc1/us-0001/trn2u-0001-2/chip05:east",
    "instance": "uc1/us-0001/trn2u-0001-2",
    "rack": "uc1/us-0001/trn2u-0001-2",
    "ultraserver": "uc1/us-0001",
    "cluster": "uc1",
    "publisher": "*",
}
"""What a target of each scope looks like."""
_NAME_WIDTH = max(map(len, FAULTS)) + 2


def facts() -> list[dict[str, Any]]:
    """Return every fault as a JSON object, in the table's order."""
    return [_facts(fault) for fault in FAULTS.values()]


def as_table() -> str:
    """Return every fault with what it does and how it ends, by scope, for people: at most 120 characters a line."""
    lines: list[str] = []
    for scope, target in TARGETS.items():
        rows = [fault for fault in FAULTS.values() if fault.scope == scope]
        if rows:
            lines.append(f"{scope} (a target is {target})")
            for fault in rows:
                lines.append(f"  {fault.name:<{_NAME_WIDTH}}{_what(fault)}")
                lines += [f"  {'':<{_NAME_WIDTH}}{line}" for line in _details(fault)]
            lines.append("")
    lines.append("What is said of a job is true of one replica where the job serves.")
    lines.append("Begin one:  trnfleet inject FAULT TARGET [--for 5m] [--magnitude X] --broker URL")
    return "\n".join(lines)


def _facts(fault: Fault) -> dict[str, Any]:
    has_magnitude = fault.most > fault.least
    return {
        "name": fault.name,
        "scope": fault.scope.value,
        "what": fault.title,
        "cause": fault.cause,
        "job": fault.reaction.value,
        "magnitude": fault.magnitude if has_magnitude else None,
        "magnitude_least": fault.least if has_magnitude else None,
        "magnitude_most": fault.most if has_magnitude else None,
        "magnitude_means": fault.effect.value if has_magnitude else None,
        "lasts_s": fault.lasts_s if fault.ends_by_itself else None,
        "recovery": fault.recovery.value,
        "recovery_s": None if fault.ends_by_itself else fault.stages.total_s,
        "health": list(fault.health),
        "counters": [count.metric for count in fault.counts],
        "hw_error": fault.hw_error or None,
        "nrt": fault.nrt,
        "rate_per_device_day": fault.rate_per_device_day,
        "rate_source": fault.rate_source or None,
    }


def _what(fault: Fault) -> str:
    job = "" if fault.reaction.value == "none" else f"; the job {fault.reaction.value}"
    code = "" if fault.nrt is None else f"; NRT {fault.nrt}"
    return f"{fault.title}{job}{code}"


def _details(fault: Fault) -> list[str]:
    if fault.ends_by_itself:
        lines = [f"ends after {fault.lasts_s:g} s, or as --for says"]
    else:
        lines = [f"{fault.recovery.value}, and all is well after about {fault.stages.total_s:g} s"]
    if fault.most > fault.least:
        lines.append(
            f"magnitude {fault.magnitude:g}, from {fault.least:g} to {fault.most:g}: {fault.effect.value}"
        )
    return lines
