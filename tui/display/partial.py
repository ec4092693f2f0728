"""Renders only the dirty lines of each widget.

For a partial update Textual's compositor renders all lines of each visible widget and discards most of them.
Moving a cursor one row on a screen of ten widgets spends half of the key's time on the discarded lines.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._compositor import Compositor
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

Rendered = tuple[Region, Region, list[Strip]]
"""A widget's region, its rendered part, and the lines of that part."""


def render_dirty(compositor: Compositor, dirty: Iterable[Region]) -> Iterable[Rendered]:
    """Render the lines of each visible widget that these regions touch."""
    painted: list[Region] = []
    # The uppermost widgets come first.
    for widget, (region, clip) in compositor.visible_widgets.items():
        seen = region.intersection(clip)
        touched = [part for part in map(seen.intersection, dirty) if part]
        if touched and not (_is_container(widget) and all(_covered(part, painted) for part in touched)):
            top, bottom = min(part.y for part in touched), max(part.bottom for part in touched)
            # Render complete lines, because widgets cache complete lines.
            part = Region(seen.x, top, seen.width, bottom - top)
            painted.append(part)
            yield region, part, widget.render_lines(part.translate((-region.x, -region.y)))


def _is_container(widget: Widget) -> bool:
    """Return whether the widget paints only its background. An overridden `render` may do other work too."""
    kind = type(widget)
    return kind.render in (Widget.render, Screen.render) and kind.render_lines is Widget.render_lines


def _covered(part: Region, painted: Iterable[Region]) -> bool:
    """Return whether these regions hide the entire part. Most containers lie entirely below their content."""
    left = [part]
    for region in painted:
        left = [piece for piece_left in left for piece in _without(piece_left, region)]
        if not left:
            return True
    return False


def _without(part: Region, hidden: Region) -> Iterable[Region]:
    """Yield the pieces of a part that a region does not hide."""
    over = part.intersection(hidden)
    if not over:
        return (part,)
    pieces = (
        Region.from_corners(part.x, part.y, part.right, over.y),
        Region.from_corners(part.x, over.bottom, part.right, part.bottom),
        Region.from_corners(part.x, over.y, over.x, over.bottom),
        Region.from_corners(over.right, over.y, part.right, over.bottom),
    )
    return [piece for piece in pieces if piece]
