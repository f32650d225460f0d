"""Groups of findings that have one cause: both ends of a link, a rack's heat, an instance's chips, a job and what stops it."""

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
"""Links between instances of an UltraServer that are down at once, from which it is one failure: one hop of all rings."""


class FindingGroup(NamedTuple):
    """Findings of one cause."""

    key: str
    place: Place
    text: str
    members: list[Finding]
    """What is wrong first, then the jobs that it stops."""
    job: str = ""
    """The job, where nothing is known but that it is down."""


def group(
    findings: Iterable[Finding], layout: Layout, job_places: Mapping[str, Sequence[str]]
) -> list[FindingGroup]:
    """Return findings in groups of one cause.

    Args:
        findings: What was found and no rule looks at.
        layout: The hierarchy.
        job_places: Where each job runs, as addresses and ranges.
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
    found = [*_link_groups(links, layout), *(_group(*each, layout) for each in others.items())]
    for finding in jobs:
        culprit = _culprit(finding, found, layout, job_places)
        if culprit is None:
            text = finding.what.removeprefix(f"{finding.subject}: ")
            place = Place(finding.path, name=finding.subject)
            found.append(
                FindingGroup(f"job {finding.subject}", place, text, [finding], finding.subject)
            )
        else:
            culprit.members.append(finding)
    return found


def _scope(finding: Finding, layout: Layout) -> str:
    """Return what findings of a kind share that are one: the rack for heat and power, else the instance; else the place itself."""
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
    if len({each.path for each in members}) > 1:
        text = f"{counted(len(members), 'chip')} {kind}"
    elif len(members) > 1:
        text = ", ".join(each.what for each in members)
    place = places.joined([Place(each.path) for each in members], layout)
    return FindingGroup(f"{kind} {where}".strip(), place, text, members)


def _link_groups(findings: list[Finding], layout: Layout) -> list[FindingGroup]:
    """Return groups of links: each with both ends, those of a chip together, and all of an UltraServer that is partitioned."""
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
    found: list[FindingGroup] = []
    done: set[int] = set()
    for number, finding in enumerate(findings):
        if number in done:
            continue
        above = "/".join(finding.path.split("/")[:2])
        if above in partitioned:
            mine = [
                each for each, other in enumerate(findings) if other.path.startswith(f"{above}/")
            ]
            text = f"{len(between[above]):,} Z links down: UltraServer partitioned"
            found.append(
                FindingGroup(
                    f"{LINK} {above}", Place(above), text, [findings[each] for each in mine]
                )
            )
        else:
            mine = _connected(number, findings, of_finding, by_link, by_chip)
            found.append(
                _of_links(
                    [findings[each] for each in mine], [of_finding[each] for each in mine], layout
                )
            )
        done.update(mine)
    return found


def _connected(
    first: int,
    findings: list[Finding],
    of_finding: list[list[Link]],
    by_link: Mapping[Link, list[int]],
    by_chip: Mapping[str, list[int]],
) -> list[int]:
    """Return the findings that share links or chips with one, and with those."""
    seen, waiting = {first}, [first]
    while waiting:
        number = waiting.pop()
        near = [*by_chip[findings[number].path]]
        for link in of_finding[number]:
            near += by_link[link]
        fresh = [each for each in near if each not in seen]
        seen.update(fresh)
        waiting += fresh
    return sorted(seen)


def _of_links(members: list[Finding], of_members: list[list[Link]], layout: Layout) -> FindingGroup:
    links = sorted({link for each in of_members for link in each})
    kind = next(
        (each.kind for each in members if each.kind in {"link down", "link slow"}), "link down"
    )
    if len(links) == 1:
        place = places.link_place(links[0][0], layout)
        text = "NeuronLinks down: 1" if kind == "link down" else members[0].what
        return FindingGroup(f"{LINK} {links[0][0]}", place, text, members)
    place = places.joined([Place(each.path) for each in members], layout)
    text = f"NeuronLinks {kind.removeprefix('link ')}: {len(links)}" if links else members[0].what
    return FindingGroup(f"{LINK} {members[0].path}", place, text, members)


def _lanes(finding: Finding) -> list[str]:
    """Return the names of the links that a finding is about; none where it only has health bits."""
    if finding.kind == "link down":
        return finding.what.partition(": ")[2].split(", ")
    if finding.kind == "link slow":
        return finding.what.removeprefix("link ").partition(" slow")[0].split(", ")
    return []


def _culprit(
    finding: Finding,
    found: list[FindingGroup],
    layout: Layout,
    job_places: Mapping[str, Sequence[str]],
) -> FindingGroup | None:
    """Return the worst of what stops a job among its instances."""
    covered = [layout.find_instances(target) for target in job_places.get(finding.subject, ())]
    runs = [each for each in covered if each]
    there = []
    for each in found:
        node = layout.find(each.place.address) if each.place.address else None
        if node is None or not each.members or not can_stop(each.members[0]):
            continue
        instances = layout.instance_range(node)
        if any(run.start < instances.stop and instances.start < run.stop for run in runs):
            there.append(each)
    return min(there, key=lambda each: (each.members[0].severity.rank, each.key), default=None)
