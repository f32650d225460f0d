"""Reports of `trnfleet fleet`: a fleet's hardware, comparisons, and published claims."""

from __future__ import annotations

import itertools
import textwrap
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trnfleet.cli.output import MOST_SHOWN, row_lines, table_lines
from trnfleet.domain.durations import DAY_S
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, ULTRASERVER_TYPES, Claim, totals
from trnfleet.domain.hardware.claims import PublishedClaim, claims_about, statements_about
from trnfleet.domain.hardware.topology import TopologyKind
from trnfleet.domain.hardware.whatif import Hardware, Training, disagreements, estimate, of_fleet
from trnfleet.domain.quantities import IEC, SI, counted, scaled_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trnfleet.domain.fleet import FleetFile
    from trnfleet.domain.layout import Layout

PEAKS = (
    ("dense FP8", "fp8_dense_flops"),
    ("dense BF16", "bf16_dense_flops"),
    ("sparse", "sparse_flops"),
    ("FP32", "fp32_flops"),
)
_RATIOS = (
    ("dense FP8 / W", "fp8_dense_flops", "power_max_w", "FLOP/s"),
    ("dense BF16 / W", "bf16_dense_flops", "power_max_w", "FLOP/s"),
    ("dense FP8 / USD", "fp8_dense_flops", "price_usd_per_h", "FLOP"),
    ("dense BF16 / USD", "bf16_dense_flops", "price_usd_per_h", "FLOP"),
    ("HBM read / USD", "hbm_bytes_per_s", "price_usd_per_h", "B"),
)
"""Label, figure, divisor, and the unit of the text. A price there is for an hour's work."""
_PER = {"power_max_w": "w", "price_usd_per_h": "usd_per_h"}


def amount(value: float, unit: str, *, is_size: bool = False) -> str:
    """Return a value with a prefixed unit: `83.2 PFLOP/s`, `12.5 Gb/s`, `1.5 TiB`.

    Args:
        value: In the unit.
        unit: Without a prefix.
        is_size: Whether it is memory, with binary prefixes.
    """
    scaled, prefix = scaled_by(value, IEC, 1024.0) if is_size else scaled_by(value, SI, 1000.0)
    text = f"{scaled:,.2f}" if scaled < 10 or (is_size and scaled < 100) else f"{scaled:,.1f}0"
    return f"{text.removesuffix('0')} {prefix}{unit}"


def published_or(value: float, published: float | None) -> float:
    """Return AWS's published figure for a total, or the total itself.

    AWS rounds before it adds up.
    """
    return value if published is None or abs(published - value) > 0.01 * value else published


def hardware_of(
    name: str, title: str, layout: Layout, members: Sequence[int] | None = None
) -> Hardware:
    """Return the hardware of a fleet or of some of its instances."""
    chosen = range(len(layout.instances)) if members is None else members
    return of_fleet(name, title, _counts(layout, chosen), _whole(layout, chosen))


def facts_of(fleet: FleetFile, layout: Layout, jobs: Mapping[str, int]) -> dict[str, Any]:
    """Return a fleet's hierarchy and totals in SI units.

    Args:
        fleet: Its file.
        layout: Its hierarchy.
        jobs: Number of instances of each job.
    """
    everything = range(len(layout.instances))
    by_type = _counts(layout, everything)
    whole = _whole(layout, everything)
    hardware = of_fleet(fleet.name, fleet.title, by_type, whole)
    kinds = [(INSTANCE_TYPES[name], count) for name, count in by_type.items()]
    chips: dict[str, int] = {}
    for kind, count in kinds:
        chips[kind.chip.title] = chips.get(kind.chip.title, 0) + kind.chips * count
    sums = totals(by_type, whole)
    inside = {kind.topology.kind for kind, _ in kinds}
    between = {kind.between.kind for kind, _ in kinds if kind.between is not None}
    return {
        "fleet": fleet.name,
        "clusters": len(layout.clusters),
        "ultraservers": layout.ultraserver_count,
        "ultraserver_types": whole,
        "instances": len(layout.instances),
        "instance_types": by_type,
        "chips": sums.chips,
        "chip_types": chips,
        "neuroncores": sums.neuroncores,
        "logical_neuroncores": _logical_cores(fleet, layout, by_type),
        "hbm_bytes": sums.hbm_bytes,
        "hbm_stacks": sum(kind.chip.hbm_stacks * kind.chips * count for kind, count in kinds),
        "hbm_bytes_per_s": sums.hbm_bytes_per_s,
        "fp8_dense_flops": sums.fp8_dense_flops,
        "bf16_dense_flops": sums.bf16_dense_flops,
        "sparse_flops": sums.sparse_flops,
        "fp32_flops": sums.fp32_flops,
        "torus_links": sums.torus_links,
        "z_links": sums.z_links,
        "switch_ports": _switch_ports(by_type, whole),
        "has_only_tori": inside <= {TopologyKind.TORUS, TopologyKind.NONE}
        and between <= {TopologyKind.RING},
        "vcpus": sums.vcpus,
        "host_memory_bytes": sums.host_memory_bytes,
        "efa_bytes_per_s": sum(
            count * kind.efa_bytes_per_s.value for kind, count in kinds if kind.has_efa
        ),
        "network_bytes_per_s": sums.efa_bytes_per_s,
        "has_efa": any(kind.has_efa for kind, _ in kinds),
        "chip_power_max_w": sums.chip_power_max_w,
        "published": dict(hardware.published),
        "sources_differ": claims_json(disagreements([hardware])),
        "statements": _statements_json([hardware]),
        "jobs": {name: {"instances": count} for name, count in jobs.items()},
    }


def _counts(layout: Layout, members: Sequence[int]) -> dict[str, int]:
    """Return the number of instances by type."""
    types = layout.instance_type.tolist()
    numbers = Counter(types[number] for number in members)
    return {kind.name: numbers[index] for index, kind in enumerate(layout.types) if numbers[index]}


def _whole(layout: Layout, members: Sequence[int]) -> dict[str, int]:
    """Return the number of whole UltraServers by type."""
    inside = set(members)
    starts = layout.ultraserver_start.tolist()
    counts: Counter[str] = Counter()
    for number, (start, end) in enumerate(itertools.pairwise(starts)):
        kind = None if layout.is_standalone[number] else layout.ultraserver_type(number)
        if kind is not None and inside.issuperset(range(start, end)):
            counts[kind.name] += 1
    return dict(counts)


def _logical_cores(fleet: FleetFile, layout: Layout, by_type: Mapping[str, int]) -> int:
    from trnfleet.domain.fleet import lnc_by_instance  # noqa: PLC0415  hardware alone needs no Pydantic

    usual = {
        name: INSTANCE_TYPES[name].neuroncores
        // INSTANCE_TYPES[name].chip.logical_neuroncore_config
        for name in by_type
    }
    logical = sum(usual[name] * count for name, count in by_type.items())
    for path, lnc in lnc_by_instance(fleet).items():
        kind = layout.type_of(layout.instance_index[path])
        logical += kind.neuroncores // lnc - usual[kind.name]
    return logical


def _switch_ports(by_type: Mapping[str, int], whole: Mapping[str, int]) -> int:
    """Return the number of links to a switch."""
    inside = sum(
        INSTANCE_TYPES[name].topology.links * count
        for name, count in by_type.items()
        if INSTANCE_TYPES[name].topology.kind is TopologyKind.SWITCHED
    )
    return inside + sum(
        ULTRASERVER_TYPES[name].topology.links * ULTRASERVER_TYPES[name].instance.chips * count
        for name, count in whole.items()
        if ULTRASERVER_TYPES[name].topology.kind is TopologyKind.SWITCHED
    )


def described(facts: dict[str, Any], title: str) -> str:
    """Return a fleet's hierarchy and totals as text.

    Args:
        facts: As `--json` prints them.
        title: The fleet's title.
    """
    published = facts["published"]

    def peak(name: str) -> str:
        exact = facts[name]
        shown = published_or(facts[name], published.get(name))
        text = amount(shown, "FLOP/s")
        same = amount(exact, "FLOP/s")
        return (
            text
            if text == same
            else f"{text} as AWS rounds it ({same} from {facts['chips']:,} chips)"
        )

    rows = [
        ("UltraClusters", f"{facts['clusters']:,}"),
        ("UltraServers", _with_kinds(facts["ultraservers"], facts["ultraserver_types"])),
        ("instances", _with_kinds(facts["instances"], facts["instance_types"])),
        ("chips", _with_kinds(facts["chips"], facts["chip_types"])),
        ("NeuronCores", _cores(facts)),
        (
            "HBM",
            (
                f"{amount(facts['hbm_bytes'], 'B', is_size=True)} in {facts['hbm_stacks']:,}"
                f" stacks, {amount(facts['hbm_bytes_per_s'], 'B/s')} peak"
            ),
        ),
        *((label, peak(name)) for label, name in PEAKS if facts[name]),
        ("NeuronLinks", _links(facts)),
        (
            "hosts",
            f"{facts['vcpus']:,} vCPUs, {amount(facts['host_memory_bytes'], 'B', is_size=True)}",
        ),
        _network(facts["efa_bytes_per_s"], facts["network_bytes_per_s"]),
        (
            "chip power",
            f"{amount(facts['chip_power_max_w'], 'W')} at most (assumed: AWS publishes no wattage)",
        ),
        ("jobs", _jobs(facts["jobs"])),
    ]
    head = f"{facts['fleet']}: {title}" if title else str(facts["fleet"])
    lines = [head, *row_lines(rows, 14, "  ")]
    lines += _sources(facts["sources_differ"], "  ")
    return "\n".join([*lines, *_statements(facts["statements"], "  ")])


def _network(efa_bytes_per_s: float, all_bytes_per_s: float) -> tuple[str, str]:
    """Return the row about the network between hosts: EFA, and the rest."""
    other = all_bytes_per_s - efa_bytes_per_s
    if not efa_bytes_per_s:
        return "network", f"{amount(other * 8, 'b/s')}, no EFA"
    return "EFA", amount(efa_bytes_per_s * 8, "b/s") + (
        f", and {amount(other * 8, 'b/s')} of network without it" if other else ""
    )


def compared(
    subjects: Sequence[Hardware], training: Training | None, columns: int | None = None
) -> str:
    """Return hardware side by side, a column each, with its published claims.

    Args:
        subjects: The hardware.
        training: A model to train on each.
        columns: Width of the terminal, for fitting the claims; None without a terminal.
    """
    names = ["", *(subject.name for subject in subjects)]
    rows: list[Sequence[str]] = [names]
    rows.append(
        [
            "chips",
            *(f"{subject.chips:,.0f} {' + '.join(subject.chip_titles)}" for subject in subjects),
        ]
    )
    for label, name, unit in (
        *((label, name, "FLOP/s") for label, name in PEAKS),
        ("HBM", "hbm_bytes", "B"),
        ("HBM bandwidth", "hbm_bytes_per_s", "B/s"),
        ("links, each way", "link_bytes_per_s", "B/s"),
        ("network", "network_bytes_per_s", "b/s"),
        ("power at most", "power_max_w", "W"),
        ("price an hour", "price_usd_per_h", "USD"),
    ):
        rows.append([label, *(_figure(subject, name, unit) for subject in subjects)])
    for label, name, per, unit in _RATIOS:
        rows.append([label, *(_ratio(subject, name, per, unit) for subject in subjects)])
    lines = table_lines(rows)
    if training is not None:
        lines += ["", *_training(subjects, training)]
    lines += ["", "~ assumed, or computed from what is:"]
    sources = dict.fromkeys(source for subject in subjects for source in subject.assumed.values())
    lines += [f"  {source}" for source in sources]
    claims = claims_about(subjects)
    if claims:
        lines += [
            "",
            "What is claimed, and what this catalogue gives:",
            *_published(claims, columns),
        ]
    lines += _sources(claims_json(disagreements(subjects)), "")
    return "\n".join([*lines, *_statements(_statements_json(subjects), "")])


def as_json(subjects: Sequence[Hardware], training: Training | None) -> dict[str, Any]:
    """Return the same for programs; figures in SI units."""
    facts: dict[str, Any] = {"subjects": [_subject(subject, training) for subject in subjects]}
    if training is not None:
        facts["training"] = training._asdict() | {
            "flops": training.flops,
            "state_bytes": training.state_bytes,
        }
    facts["claims"] = [
        {
            "subject": claim.subject,
            "claim": claim.claim,
            "source": claim.source,
            "low": claim.low,
            "high": claim.high,
            "unit": claim.unit,
            "basis": claim.basis,
            "computed": claim.value,
            "agrees": claim.agrees,
            "note": claim.note,
        }
        for claim in claims_about(subjects)
    ]
    facts["sources_differ"] = claims_json(disagreements(subjects))
    facts["statements"] = _statements_json(subjects)
    return facts


def claims_json(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """Return quantities with contradicting sources, for programs."""
    return [
        {
            "subject": claim.subject,
            "used": asdict(claim.used),
            "others": [asdict(other) for other in claim.others],
        }
        for claim in claims
    ]


def _statements_json(subjects: Iterable[Hardware]) -> list[dict[str, Any]]:
    """Return published statements about the subjects' chips, for programs."""
    titles = [title for subject in subjects for title in subject.chip_titles]
    return [statement._asdict() for statement in statements_about(titles)]


def _subject(hardware: Hardware, training: Training | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": hardware.name,
        "title": hardware.title,
        "chips": hardware.chips,
        "chip_types": list(hardware.chip_titles),
        **hardware.figures,
        **{f"{name}_per_{_PER[per]}": hardware.ratio(name, per) for _, name, per, _ in _RATIOS},
        "assumed": dict(hardware.assumed),
        "published": dict(hardware.published),
    }
    if training is not None:
        facts["training"] = estimate(training, hardware)._asdict()
    return facts


def _with_kinds(number: int, kinds: dict[str, int]) -> str:
    if len(kinds) == 1:
        return f"{number:,} {next(iter(kinds))}"
    inside = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    return f"{number:,}  ({inside})" if kinds else f"{number:,}"


def _cores(facts: dict[str, Any]) -> str:
    cores = facts["neuroncores"]
    logical = facts["logical_neuroncores"]
    return f"{cores:,}" if cores == logical else f"{cores:,}  ({logical:,} logical)"


def _links(facts: dict[str, Any]) -> str:
    inside = facts["torus_links"]
    between = facts["z_links"]
    if facts["has_only_tori"]:
        return f"{inside:,} torus, {between:,} Z"
    ports = ""
    if facts["switch_ports"] == inside + between:
        ports = ", all ports to switches"
    elif facts["switch_ports"]:
        ports = f", {facts['switch_ports']:,} of them ports to switches"
    return f"{inside:,} within instances, {between:,} between them{ports}"


def _jobs(jobs: dict[str, dict[str, int]]) -> str:
    shown = [
        f"{name} on {counted(job['instances'], 'instance')}"
        for name, job in list(jobs.items())[:MOST_SHOWN]
    ]
    more = f", and {len(jobs) - MOST_SHOWN:,} more" if len(jobs) > MOST_SHOWN else ""
    return (", ".join(shown) or "none") + more


def _figure(hardware: Hardware, name: str, unit: str) -> str:
    value = published_or(hardware.figures[name], hardware.published.get(name))
    if not value:
        return "none"
    if unit == "USD":
        return _mark(hardware, name) + f"{value:,.2f} USD"
    return _mark(hardware, name) + amount(
        value * 8 if unit == "b/s" else value, unit, is_size=unit == "B"
    )


def _ratio(hardware: Hardware, name: str, per: str, unit: str) -> str:
    value = hardware.ratio(name, per) * (3_600 if per == "price_usd_per_h" else 1)
    return _mark(hardware, per) + amount(value, unit)


def _mark(hardware: Hardware, name: str) -> str:
    return "~" if name in hardware.assumed else ""


def _training(subjects: Sequence[Hardware], training: Training) -> list[str]:
    estimates = [estimate(training, subject) for subject in subjects]
    head = (
        f"To train {_count(training.parameters)} parameters on {_count(training.tokens)} tokens: "
        f"{training.flops:.3g} FLOP at an MFU of {training.mfu:g} in {training.dtype.upper()} "
        "(6 FLOP a parameter and token)"
    )
    rows: list[Sequence[str]] = [["", *(subject.name for subject in subjects)]]
    rows.append(["time", *(_long(cost.elapsed_s) for cost in estimates)])
    rows.append(
        [
            "price",
            *(
                _mark(one, "price_usd_per_h") + f"{cost.cost_usd:,.0f} USD"
                for one, cost in zip(subjects, estimates, strict=True)
            ),
        ]
    )
    rows.append(
        [
            "energy",
            *(
                _mark(one, "power_max_w") + amount(cost.energy_j / 3_600, "Wh")
                for one, cost in zip(subjects, estimates, strict=True)
            ),
        ]
    )
    state = amount(training.state_bytes, "B", is_size=True)
    rows.append(
        [
            "fits",
            *("yes" if cost.fits else f"no: {state} of state" for cost in estimates),
        ]
    )
    return [head, *table_lines(rows)]


def _count(number: float) -> str:
    """Return a number in the style of model training: `300B`, `6T`."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{number / size:,.4g}{letter}"
    return f"{number:,.4g}"


def _long(elapsed_s: float) -> str:
    days = elapsed_s / DAY_S
    if days >= 2 * 365:
        return f"{days / 365.25:,.1f} years"
    return f"{days:,.1f} days" if days >= 1 else f"{elapsed_s / 3_600:,.2f} h"


def _published(claims: Sequence[PublishedClaim], columns: int | None) -> list[str]:
    """Return the table of claims.

    If it is wider than the terminal, each claim's source is below it.
    """
    rows: list[Sequence[str]] = [("claim", "about", "here", "", "by", "source")]
    for claim in claims:
        here = f"{claim.value:.2f} x" if claim.unit == "x" else f"{claim.value:.1f} {claim.unit}"
        source = claim.source + (f" ({claim.note})" if claim.note else "")
        rows.append((claim.claim, claim.subject, here, claim.verdict, claim.basis, source))
    lines = table_lines(rows)
    if columns is None or max(map(len, lines)) <= columns:
        return lines
    lines = table_lines([row[:-1] for row in rows])
    if max(map(len, lines)) > columns:
        texts = (
            f"{claim} ({about}): here {here}, {verdict}; by {by}"
            for claim, about, here, verdict, by, _ in rows[1:]
        )
        shown = [_wrapped(text, "", "  ", columns) for text in texts]
        head = []
    else:
        head = lines[:1]
        shown = [[line] for line in lines[1:]]
    return head + [
        line
        for above, row in zip(shown, rows[1:], strict=True)
        for line in (*above, *_wrapped(row[-1], "    ", "    ", columns))
    ]


def _wrapped(text: str, first: str, later: str, columns: int) -> list[str]:
    return textwrap.wrap(text, max(columns, 20), initial_indent=first, subsequent_indent=later)


def _sources(claims: Iterable[dict[str, Any]], indent: str) -> list[str]:
    """Return the lines of quantities with contradicting sources."""
    lines = []
    for claim in claims:
        lines.append(f"{indent}  {claim['subject']}: {_said(claim['used'])}, which is used here")
        lines.extend(f"{indent}    against {_said(other)}" for other in claim["others"])
    return ["", f"{indent}Where sources differ:", *lines] if lines else []


def _statements(statements: Iterable[dict[str, Any]], indent: str) -> list[str]:
    """Return the lines of published statements."""
    lines = [
        f"{indent}  {' and '.join(said['chips'])}: {said['text']} ({said['source']})"
        for said in statements
    ]
    return ["", f"{indent}Also published, and not computed here:", *lines] if lines else []


def _said(figure: dict[str, Any]) -> str:
    value = figure["value"]
    unit = figure["unit"]
    units = {"FLOP/s": "FLOP/s", "bytes/s": "B/s"}
    return (
        f"{amount(value, units[unit]) if unit in units else f'{value:,g} {unit}'}"
        f" ({figure['source']})"
    )
