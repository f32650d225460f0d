"""The pictures of the documentation, made by the running app.

They are well-formed, reproducible and all used.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from support.paths import ROOT

from lab.pictures.__main__ import FOLDER, MOST_BYTES, Scene, Shot, shots, take

NAMESPACE = "http://www.w3.org/2000/svg"


async def test_a_picture_is_the_screen_and_names_no_address() -> None:
    shot = Shot("fleet", Scene("neuronlink-split", 230.0), ("1",), (80, 24), "Fleet & more")
    (text,) = (await take([shot])).values()
    assert re.findall(r"\w+://[^\"'<]*", text) == [NAMESPACE]
    drawing = ET.fromstring(text)  # noqa: S314  just made
    assert (drawing.get("width"), drawing.get("height")) == ("640", "384")
    assert drawing.findtext(f"{{{NAMESPACE}}}title") == "trnfleet: Fleet & more"
    words = " ".join(each.text or "" for each in drawing.iter(f"{{{NAMESPACE}}}text"))
    for word in ("1 Fleet", "Problems", "paused", "09:03:50", "33 Z links down"):
        assert word in words, words
    assert (await take([shot]))["fleet"] == text


def test_the_page_shows_every_picture_and_there_are_no_others() -> None:
    page = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\(pictures/([^)]+)\.svg\)", page))
    files = {file.relative_to(FOLDER).with_suffix("").as_posix() for file in FOLDER.rglob("*.svg")}
    assert files == shown
    assert {name for name in files if "/" not in name} == {shot.name for shot in shots()}
    assert sum(file.stat().st_size for file in FOLDER.rglob("*.svg")) < MOST_BYTES
