"""Strips as cells: the character and the style of each cell of a row."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rich.cells import split_graphemes
from rich.color import ColorSystem
from textual.strip import Strip

Chars = list[str | None]
"""Characters by cell. The second cell of a wide character is ""; a cell of unknown content is None."""
CellStyles = list[str]
"""SGR parameters by cell."""


class NotRepresentable(Exception):
    """Content that cells can't represent: a control character, a link, or a control segment."""


def strip_cells(strips: Iterable[Strip], system: ColorSystem) -> tuple[Chars, CellStyles]:
    """Return the character and style of each cell of adjacent strips.

    Raises:
        NotRepresentable: cells can't represent the content; Textual then paints it.
    """
    chars: Chars = []
    styles: CellStyles = []
    for strip in strips:
        begin = len(chars)
        for text, style, control in strip:
            if control:
                raise NotRepresentable("a control segment")
            sgr = ""
            if style is not None:
                if style._link:
                    raise NotRepresentable("a link")
                sgr = style._ansi if style._ansi is not None else Strip.render_ansi(style, system)
            if text.isascii():
                if not text.isprintable():
                    raise NotRepresentable("a control character")
                chars.extend(text)
                styles.extend([sgr] * len(text))
            else:
                clusters = graphemes(text)
                if clusters and not clusters[0]:
                    raise NotRepresentable("a mark without a character")
                chars.extend(clusters)
                styles.extend([sgr] * len(clusters))
        if len(chars) - begin != strip.cell_length:
            raise NotRepresentable("the width of a strip differs from its declared width")
    return chars, styles


@lru_cache(maxsize=4096)
def graphemes(text: str) -> tuple[str, ...]:
    """Return the cells of a text: "" follows a wide character, and a zero-width mark is joined to its
    character.

    Raises:
        NotRepresentable: the text contains a control character.
    """
    cells: list[str] = []
    spans, _ = split_graphemes(text)
    for start, end, width in spans:
        part = text[start:end]
        if any(_is_control(character) for character in part):
            raise NotRepresentable("a control character")
        if width:
            cells.append(part)
            cells.extend([""] * (width - 1))
        elif cells:
            at = len(cells) - 1
            while at and not cells[at]:
                at -= 1
            cells[at] += part
        else:
            cells.append("")
    return tuple(cells)


def _is_control(character: str) -> bool:
    code = ord(character)
    return code < 0x20 or 0x7F <= code < 0xA0 or code in (0x2028, 0x2029)


@lru_cache(maxsize=8192)
def is_sure(cell: str) -> bool:
    """Return whether every terminal uses the same number of cells for this character. After any other
    character the position is unknown: emoji, joined and marked characters occupy one or two cells, depending
    on terminal and font."""
    if len(cell) != 1:
        return not cell
    code = ord(cell)
    return code < 0x300 or 0x2010 <= code < 0x2600 or 0x2800 <= code < 0x2900 or _is_plain_cjk(code)


def _is_plain_cjk(code: int) -> bool:
    return 0x3041 <= code <= 0x30FF or 0x4E00 <= code <= 0x9FFF or 0xAC00 <= code <= 0xD7A3
