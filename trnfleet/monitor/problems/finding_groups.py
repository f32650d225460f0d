"""Groups of findings with one cause.

Examples: both ends of a link, a rack's heat, an instance's chips, a job and the reason it stopped.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.domain.address import Level, level_of
from trnfleet.domain.alerts.subsystems import LINK, POWER_COOLING
from trnfleet.domain.quantities import counted
from trnfleet.monitor.problems import places
from trnfleet.monitor.problems.problem import Place
from trnfleet.monitor.problems.uncovered import can_stop, subsystem_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trnfleet.domain.layout import Layout
    from trnfleet.monitor.problems.places import Link
    from trnfleet.monitor.store.findings import Finding

PARTITIONED_FROM = 16
"""Links down at once between instances of an UltraServer to count as one failure. One hop of all
rings."""


class FindingGroup(NamedTuple):
    """Findings of one cause."""

    key: str
    place: Place
    text: str
    members: list[Finding]
    """Faults first, then the jobs stopped by them."""
    job: str = ""
    """The job, if nothing is known except its state."""


def group(
    findings: Iterable[Finding], layout: Layout, job_places: Mapping[str, Sequence[str]]
) -> list[FindingGroup]:
    """Return findings in groups of one cause.

    Args:
        findings: Findings without a rule.
        layout: The hierarchy.
        job_places: Instances of each job, as addresses and ranges.
    """
    links: list[Finding] = []
    jobs: list[Finding] = []
    others: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.kind == "job":
            jobs.append(finding)
        elif subsystem_of(finding) == LINK and finding.path:
            links.append(finding)
        else:
            others[finding.kind, _scope(finding, layout)].append(finding)
    groups = [*_link_groups(links, layout), *(_group(*pair, layout) for pair in others.items())]
    for finding in jobs:
        culprit = _culprit(finding, groups, layout, job_places)
        if culprit is None:
            text = finding.what.removeprefix(f"{finding.subject}: ")
            place = Place(finding.path, name=finding.subject)
            groups.append(
                FindingGroup(f"job {finding.subject}", place, text, [finding], finding.subject)
            )
        else:
            culprit.members.append(finding)
    return groups


def _scope(finding: Finding, layout: Layout) -> str:
    """Return the common scope of a finding: its rack, instance or own path.

    The rack for heat and power; the own path at instance level or above.
    """
    if level_of(finding.path) <= Level.INSTANCE:
        return finding.path
    if subsystem_of(finding) == POWER_COOLING:
        rack = places.rack_of(Place(finding.path), layout)
        if rack:
            return "/".join([*finding.path.split("/")[:2], rack])
    return "/".join(finding.path.split("/")[:3])


def _group(scope: tuple[str, str], members: list[Finding], layout: Layout) -> FindingGroup:
    kind, where = scope
    text = members[0].what
    if len({member.path for member in members}) > 1:
        text = f"{counted(len(members), 'chip')} {kind}"
    elif len(members) > 1:
        text = ", ".join(member.what for member in members)
    place = places.joined([Place(member.path) for member in members], layout)
    return FindingGroup(f"{kind} {where}".strip(), place, text, members)


def _link_groups(findings: list[Finding], layout: Layout) -> list[FindingGroup]:
    """Return groups of links: both ends, links of one chip, or a partitioned UltraServer."""
    by_link: dict[Link, list[int]] = defaultdict(list)
    by_chip: dict[str, list[int]] = defaultdict(list)
    of_finding: list[list[Link]] = []
    for number, finding in enumerate(findings):
        links = [places.link_at(f"{finding.path}:{lane}", layout) for lane in _lanes(finding)]
        of_finding.append(links)
        by_chip[finding.path].append(number)
        for link in links:
            by_link[link].append(number)
    between: dict[str, set[Link]] = defaultdict(set)
    for link in by_link:
        if places.is_between(link[0], layout):
            between["/".join(link[0].split("/")[:2])].add(link)
    partitioned = {where for where, links in between.items() if len(links) >= PARTITIONED_FROM}
    groups: list[FindingGroup] = []
    done: set[int] = set()
    for number, finding in enumerate(findings):
        if number in done:
            continue
        above = "/".join(finding.path.split("/")[:2])
        if above in partitioned:
            mine = [
                index for index, other in enumerate(findings) if other.path.startswith(f"{above}/")
            ]
            text = f"{len(between[above]):,} Z links down: UltraServer partitioned"
            groups.append(
                FindingGroup(
                    f"{LINK} {above}", Place(above), text, [findings[index] for index in mine]
                )
            )
        else:
            mine = _connected(number, findings, of_finding, by_link, by_chip)
            groups.append(
                _of_links(
                    [findings[index] for index in mine],
                    [of_finding[index] for index in mine],
                    layout,
                )
            )
        done.update(mine)
    return groups


def _connected(
    first: int,
    findings: list[Finding],
    of_finding: list[list[Link]],
    by_link: Mapping[Link, list[int]],
    by_chip: Mapping[str, list[int]],
) -> list[int]:
    """Return the findings connected to one by shared links or chips, directly or not."""
    seen = {first}
    waiting = [first]
    while waiting:
        number = waiting.pop()
        near = [*by_chip[findings[number].path]]
        for link in of_finding[number]:
            near += by_link[link]
        fresh = [index for index in near if index not in seen]
        seen.update(fresh)
        waiting += fresh
    return sorted(seen)


def _of_links(members: list[Finding], of_members: list[list[Link]], layout: Layout) -> FindingGroup:
    links = sorted({link for own in of_members for link in own})
    kind = next(
        (member.kind for member in members if member.kind in {"link down", "link slow"}),
        "link down",
    )
    if len(links) == 1:
        place = places.link_place(links[0][0], layout)
        text = "1 NeuronLink down" if kind == "link down" else members[0].what
        return FindingGroup(f"{LINK} {links[0][0]}", place, text, members)
    place = places.joined([Place(member.path) for member in members], layout)
    text = (
        f"{counted(len(links), 'NeuronLink')} {kind.removeprefix('link ')}"
        if links
        else members[0].what
    )
    return FindingGroup(f"{LINK} {members[0].path}", place, text, members)


def _lanes(finding: Finding) -> list[str]:
    """Return the link names of a finding; empty if it only has health bits."""
    if finding.kind == "link down":
        return finding.what.partition(": ")[2].split(", ")
    if finding.kind == "link slow":
        return finding.what.removeprefix("link ").partition(" slow")[0].split(", ")
    return []


def _culprit(
    finding: Finding,
    groups: list[FindingGroup],
    layout: Layout,
    job_places: Mapping[str, Sequence[str]],
) -> FindingGroup | None:
    """Return the worst fault among a stopped job's instances."""
    covered = [layout.find_instances(target) for target in job_places.get(finding.subject, ())]
    runs = [run for run in covered if run]
    there = []
    for candidate in groups:
        node = layout.find(candidate.place.address) if candidate.place.address else None
        if node is None or not candidate.members or not can_stop(candidate.members[0]):
            continue
        instances = layout.instance_range(node)
        if any(run.start < instances.stop and instances.start < run.stop for run in runs):
            there.append(candidate)
    return min(
        there,
        key=lambda candidate: (candidate.members[0].severity.rank, candidate.key),
        default=None,
    )
