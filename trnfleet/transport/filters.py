"""Topic filters of MQTT."""

from __future__ import annotations

import re


def topic_matches(topic_filter: str, topic: str) -> bool:
    """Return whether a topic matches a filter.

    `+` matches one level, `#` the rest, including its parent.
    """
    return topic_pattern(topic_filter).fullmatch(topic) is not None


def topic_pattern(*topic_filters: str) -> re.Pattern[str]:
    """Return filters as one pattern for matching topics; without filters nothing matches.

    Raises:
        ValueError: `#` is not at the end, or a wildcard shares its level.
    """
    if not topic_filters:
        return re.compile(r"(?!)")
    return re.compile("|".join(map(_expression, topic_filters)), re.DOTALL)


def _expression(topic_filter: str) -> str:
    levels = topic_filter.split("/")
    if (
        not topic_filter
        or "#" in levels[:-1]
        or any(len(level) > 1 and ("+" in level or "#" in level) for level in levels)
    ):
        raise ValueError(f"{topic_filter!r} is not a topic filter")
    # Topics that begin with $ are the broker's own; a leading wildcard does not reach them.
    head = r"(?!\$)" if levels[0] in ("+", "#") else ""
    if levels == ["#"]:
        return head + ".*"
    rest = levels[-1] == "#"
    body = "/".join(
        "[^/]*" if level == "+" else re.escape(level) for level in (levels[:-1] if rest else levels)
    )
    return head + body + ("(?:/.*)?" if rest else "")
