"""A terminal's screen as an SVG with the same look everywhere.

No font is embedded, and nothing is fetched. Every cell is 8 x 16 units. Blocks, braille and lines
are drawn as shapes; other characters are text of any monospace font, each run with the length of
its cells. Equal screens are equal bytes.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.color import Color, ColorType
from rich.terminal_theme import TerminalTheme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.style import Style

WIDTH = 8
HEIGHT = 16
BASELINE = 12
FONT_SIZE = 13.3
"""Size of DejaVu Sans Mono with 8 units per character. For viewers without `textLength`."""
LINE = 1.2
HEAVY_LINE = 2.4
DOT = 2
"""Widths of strokes."""
DIM = 0.55
"""Share of the ink that dim text keeps."""
Rgb = tuple[int, int, int]
FOREGROUND = (201, 209, 217)
BACKGROUND = (14, 17, 22)
"""The terminal's own colours, for text and page without a colour of the app."""
TERMINAL = TerminalTheme(
    BACKGROUND,
    FOREGROUND,
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
    [
        (110, 118, 129),
        (255, 161, 152),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (255, 255, 255),
    ],
)
_FONT = (
    f'font-family="\'DejaVu Sans Mono\',Menlo,Consolas,monospace" font-size="{FONT_SIZE}" '
    'style="font-variant-ligatures:none" role="img"'
)
_SHADES = "░▒▓"
"""Shades by quarters of the ink."""
_CORNERS = ("UPPER LEFT", "UPPER RIGHT", "LOWER LEFT", "LOWER RIGHT")
_DASHES = ("DOUBLE", "TRIPLE", "QUADRUPLE")
"""Words of Unicode for the quarters of a block, and for two dashes or more."""
_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of a braille character's dots, by bit."""


class Cell(NamedTuple):
    """A character on the screen, with its colours."""

    text: str
    cells: int
    ink: Rgb
    paper: Rgb
    is_bold: bool = False
    is_underlined: bool = False


class _Rectangle(NamedTuple):
    x: int
    y: int
    width: int
    height: int


def picture(
    lines: Iterable[Iterable[tuple[str, Style | None]]], size: tuple[int, int], title: str
) -> str:
    """Return an SVG of a screen.

    Args:
        lines: Texts of each row with their styles.
        size: Columns and rows.
        title: Title for screen readers.
    """
    columns, rows = size
    screen = [list(_cells(line, columns)) for line in lines][:rows]
    page = _page(screen)
    drawing = _Drawing()
    for row, cells in enumerate(screen):
        drawing.add(row, cells, page)
    width = columns * WIDTH
    height = rows * HEIGHT
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            f' width="{width}" height="{height}" {_FONT}>'
        ),
        f"<title>{escape(title)}</title>",
        f'<path fill="{_hex(page)}" d="M0 0h{width}v{height}h-{width}z"/>',
        *drawing.parts(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _cells(line: Iterable[tuple[str, Style | None]], columns: int) -> Iterator[Cell]:
    """Yield the characters of a row."""
    left = columns
    for text, style in line:
        ink, paper = _colours(style)
        is_bold = style is not None and bool(style.bold)
        is_underlined = style is not None and bool(style.underline)
        for character in text:
            cells = cell_len(character)
            if not 0 < cells <= left:
                continue
            left -= cells
            shown = character if character.isprintable() else " "
            yield Cell(shown, cells, ink, paper, is_bold, is_underlined)


def _colours(style: Style | None) -> tuple[Rgb, Rgb]:
    if style is None:
        return FOREGROUND, BACKGROUND
    ink = _rgb(style.color, FOREGROUND)
    paper = _rgb(style.bgcolor, BACKGROUND)
    if style.reverse:
        ink, paper = paper, ink
    return (_blend(ink, paper, DIM) if style.dim else ink), paper


def _rgb(color: Color | None, default: Rgb) -> Rgb:
    if color is None or color.type is ColorType.DEFAULT:
        return default
    red, green, blue = color.get_truecolor(TERMINAL)
    return red, green, blue


def _blend(ink: Rgb, paper: Rgb, share: float) -> Rgb:
    red, green, blue = (
        round(below + (above - below) * share) for above, below in zip(ink, paper, strict=True)
    )
    return red, green, blue


def _hex(rgb: Rgb) -> str:
    return "#" + bytes(rgb).hex()


def _page(screen: Sequence[Sequence[Cell]]) -> Rgb:
    """Return the colour behind most of the screen."""
    count: dict[Rgb, int] = defaultdict(int)
    for cells in screen:
        for cell in cells:
            count[cell.paper] += cell.cells
    return max(count, key=lambda paper: (count[paper], paper), default=BACKGROUND)


class _Drawing:
    """Shapes and texts, collected by colour."""

    def __init__(self) -> None:
        self._papers: dict[Rgb, list[_Rectangle]] = defaultdict(list)
        self._fills: dict[Rgb, list[_Rectangle]] = defaultdict(list)
        self._strokes: dict[tuple[Rgb, float], list[str]] = defaultdict(list)
        self._texts: dict[tuple[Rgb, bool], list[str]] = defaultdict(list)

    def add(self, row: int, cells: Sequence[Cell], page: Rgb) -> None:
        """Take a row."""
        y = row * HEIGHT
        x = 0
        places = []
        for cell in cells:
            places.append((x, cell))
            x += cell.cells * WIDTH
        for start, run in _runs(places, lambda cell: cell.paper):
            if run[0].paper != page:
                self._papers[run[0].paper].append(
                    _Rectangle(start, y, sum(_width(cell) for cell in run), HEIGHT)
                )
        for start, run in _runs(
            places,
            lambda cell: (
                cell.ink,
                _kind(cell.text),
                cell.text if _kind(cell.text) == "line" else "",
            ),
        ):
            self._shapes(start, y, run)
        for start, run in _runs(places, lambda cell: (cell.ink, cell.is_bold, cell.is_underlined)):
            self._text(start, y, run)

    def _shapes(self, x: int, y: int, run: Sequence[Cell]) -> None:
        """Draw a run of one colour and one kind; of lines, of one character."""
        first = run[0]
        kind = _kind(first.text)
        if kind == "block":
            for number, cell in enumerate(run):
                share = (_SHADES.index(cell.text) + 1) / 4 if cell.text in _SHADES else 1.0
                ink = _blend(cell.ink, cell.paper, share)
                self._fills[ink] += _block(cell.text, x + number * WIDTH, y)
        elif kind == "braille":
            self._strokes[first.ink, DOT].append(_braille([cell.text for cell in run], x, y))
        elif kind == "line":
            for width, path in _line(first.text, len(run), x, y):
                self._strokes[first.ink, width].append(path)

    def _text(self, x: int, y: int, run: Sequence[Cell]) -> None:
        """Write a run of one style.

        Words with single spaces are one text; characters with a width that depends on the font are
        written cell by cell.
        """
        ink = run[0].ink
        is_bold = run[0].is_bold
        texts = self._texts[ink, is_bold]
        if run[0].is_underlined:
            width = sum(_width(cell) for cell in run)
            self._fills[ink].append(_Rectangle(x, y + BASELINE + 2, width, 1))
        words = ""
        start = x
        for cell in run:
            is_plain = len(cell.text) == 1 and (cell.text.isascii() or cell.text in "°·²…")
            if is_plain and (cell.text != " " or (words and words[-1] != " ")):
                start = start if words else x
                words += cell.text
            else:
                if words:
                    texts.append(_words(words, start, y))
                    words = ""
                if not is_plain and _kind(cell.text) == "text":
                    centre = x + _width(cell) / 2
                    texts.append(
                        f'<text x="{centre:g}" y="{y + BASELINE}"'
                        f' text-anchor="middle">{escape(cell.text)}</text>'
                    )
            x += _width(cell)
        if words.strip():
            texts.append(_words(words, start, y))

    def parts(self) -> Iterator[str]:
        """Yield the elements, from the back to the front."""
        for ink, rectangles in sorted(self._papers.items()):
            yield _filled(ink, rectangles)
        for ink, rectangles in sorted(self._fills.items()):
            yield _filled(ink, rectangles)
        for (ink, width), paths in sorted(self._strokes.items()):
            yield (
                f'<path fill="none" stroke="{_hex(ink)}" stroke-width="{width}"'
                f' d="{"".join(paths)}"/>'
            )
        for (ink, is_bold), texts in sorted(self._texts.items()):
            if texts:
                bold = ' font-weight="bold"' if is_bold else ""
                yield f'<g fill="{_hex(ink)}"{bold}>{"".join(texts)}</g>'


def _width(cell: Cell) -> int:
    return cell.cells * WIDTH


def _runs(
    places: Iterable[tuple[int, Cell]], key: Callable[[Cell], object]
) -> Iterator[tuple[int, list[Cell]]]:
    """Yield runs of cells with the same key, with their places."""
    start = 0
    run = list[Cell]()
    for x, cell in places:
        if run and key(run[0]) != key(cell):
            yield start, run
            run = []
        if not run:
            start = x
        run.append(cell)
    if run:
        yield start, run


def _kind(text: str) -> str:
    if "\u2800" < text <= "\u28ff":
        return "braille"
    if "\u2580" <= text <= "\u259f" or text == "■":
        return "block"
    if "\u2500" <= text < "\u2580" and (_is_dashed(text) or _arms(text)):
        return "line"
    return "text" if text != "\u2800" else "space"


def _block(text: str, x: int, y: int) -> list[_Rectangle]:
    """Return the filled parts of a cell."""
    point = ord(text)
    if text in _SHADES:
        return [_Rectangle(x, y, WIDTH, HEIGHT)]
    if unicodedata.name(text).startswith("QUADRANT"):
        half = WIDTH // 2
        tall = HEIGHT // 2
        return [
            _Rectangle(x + number % 2 * half, y + number // 2 * tall, half, tall)
            for number, corner in enumerate(_CORNERS)
            if corner in unicodedata.name(text)
        ]
    if text == "■":
        return [_Rectangle(x + 1, y + 5, 6, 6)]
    if text == "▀":
        return [_Rectangle(x, y, WIDTH, HEIGHT // 2)]
    if text == "▔":
        return [_Rectangle(x, y, WIDTH, 2)]
    if text in "▐▕":
        width = WIDTH // 2 if text == "▐" else 1
        return [_Rectangle(x + WIDTH - width, y, width, HEIGHT)]
    if point <= 0x2588:
        height = (point - 0x2580) * HEIGHT // 8
        return [_Rectangle(x, y + HEIGHT - height, WIDTH, height)]
    return [_Rectangle(x, y, (0x2590 - point) * WIDTH // 8, HEIGHT)]


def _braille(texts: Sequence[str], x: int, y: int) -> str:
    """Return the strokes of a row of braille.

    Dots side by side at one height are adjacent in the path.
    """
    pen = None
    path = ""
    for row in range(4):
        for number, text in enumerate(texts):
            for bit, (column, height) in enumerate(_DOTS):
                if height != row or not (ord(text) - 0x2800) >> bit & 1:
                    continue
                left = x + number * WIDTH + column * 4 + 1
                middle = y + row * 4 + 2
                path += (
                    f"M{left} {middle}h2"
                    if pen is None
                    else f"m{left - pen[0]} {middle - pen[1]}h2"
                )
                pen = left + 2, middle
    return path


def _arms(text: str) -> tuple[float, float, float, float] | None:
    """Return the widths of a line's arms: left, up, right, down.

    None for characters other than light and heavy lines.
    """
    words = unicodedata.name(text).removeprefix("BOX DRAWINGS ").replace(" ARC ", " ").split()
    arms = dict.fromkeys(("LEFT", "UP", "RIGHT", "DOWN"), 0.0)
    width = LINE
    pending: list[str] = []
    weight_follows = words[0] not in {"LIGHT", "HEAVY"}
    for word in words:
        if word in {"LIGHT", "HEAVY"}:
            width = LINE if word == "LIGHT" else HEAVY_LINE
            for arm in pending if weight_follows else ():
                arms[arm] = width
            pending.clear()
        elif word in {"HORIZONTAL", "VERTICAL", *arms}:
            directions = {"HORIZONTAL": ["LEFT", "RIGHT"], "VERTICAL": ["UP", "DOWN"]}.get(
                word, [word]
            )
            pending += directions
            arms.update(dict.fromkeys(directions, width))
        elif word != "AND":
            return None
    return arms["LEFT"], arms["UP"], arms["RIGHT"], arms["DOWN"]


def _line(text: str, count: int, x: int, y: int) -> Iterator[tuple[float, str]]:
    """Yield widths and strokes of a run of one line character."""
    middle = y + HEIGHT // 2
    centre = x + WIDTH // 2
    if _is_dashed(text):
        for number in range(count):
            yield from _dashes(text, x + number * WIDTH, y)
        return
    left, up, right, down = _arms(text) or (0.0, 0.0, 0.0, 0.0)
    if left and left == right:
        # One stroke for all of them, which has no joints.
        yield left, f"M{x} {middle}h{count * WIDTH}"
        left = right = 0.0
    arms = [(left, -4, "h4"), (right, 0, "h4")]
    for number in range(count):
        at = centre + number * WIDTH
        if text in "╭╮╰╯":
            side = 4 if text in "╭╰" else -4
            end = 8 if text in "╭╮" else -8
            yield LINE, f"M{at} {middle + end}v{-end // 2}q0 {-end // 2} {side} {-end // 2}"
            continue
        for width, begin, stroke in arms:
            if width:
                yield width, f"M{at + begin} {middle}{stroke}"
        if up or down:
            yield (
                max(up, down),
                f"M{at} {y if up else middle}v{HEIGHT if up and down else HEIGHT // 2}",
            )


def _is_dashed(text: str) -> bool:
    return " DASH " in unicodedata.name(text)


def _dashes(text: str, x: int, y: int) -> Iterator[tuple[float, str]]:
    weight, amount, _, direction = unicodedata.name(text).split()[2:]
    is_upright = direction == "VERTICAL"
    dashes = 2 + _DASHES.index(amount)
    width = HEAVY_LINE if weight == "HEAVY" else LINE
    long = (HEIGHT if is_upright else WIDTH) / dashes
    for dash in range(dashes):
        at = dash * long + long / 4
        if is_upright:
            yield width, f"M{x + WIDTH // 2} {y + at:g}v{long / 2:g}"
        else:
            yield width, f"M{x + at:g} {y + HEIGHT // 2}h{long / 2:g}"


def _filled(ink: Rgb, rectangles: list[_Rectangle]) -> str:
    path = "".join(
        f"M{x} {y}h{width}v{height}h-{width}z" for x, y, width, height in _joined(rectangles)
    )
    return f'<path fill="{_hex(ink)}" shape-rendering="crispEdges" d="{path}"/>'


def _joined(rectangles: Iterable[_Rectangle]) -> list[_Rectangle]:
    """Return rectangles with neighbours joined, first horizontally, then vertically."""
    flat: list[_Rectangle] = []
    for rectangle in rectangles:
        last = flat[-1] if flat else None
        if (
            last is not None
            and last.x + last.width == rectangle.x
            and (last.y, last.height) == (rectangle.y, rectangle.height)
        ):
            flat[-1] = last._replace(width=last.width + rectangle.width)
        else:
            flat.append(rectangle)
    above: dict[tuple[int, int, int], int] = {}
    joined: list[_Rectangle] = []
    for rectangle in flat:
        number = above.pop((rectangle.x, rectangle.width, rectangle.y), None)
        if number is None:
            number = len(joined)
            joined.append(rectangle)
        else:
            joined[number] = joined[number]._replace(
                height=joined[number].height + rectangle.height
            )
        above[rectangle.x, rectangle.width, rectangle.y + rectangle.height] = number
    return joined


def _words(words: str, x: int, y: int) -> str:
    words = words.rstrip()
    length = f' textLength="{len(words) * WIDTH}"' if len(words) > 1 else ""
    return f'<text x="{x}" y="{y + BASELINE}"{length}>{escape(words)}</text>'
