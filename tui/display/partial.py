"""Renders only dirty widgets, and lays out and styles a screen once; Textual does both again and again.

For each partial update its compositor asks each visible widget for all of its lines and discards most of
them: for a cursor that moves one row on a screen of ten widgets that is half of the time of a key.

A dialog that opens lays out all screens below it again, though their size is the same; a screen that opens
or comes back has all its widgets styled a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual._compositor import ChopsUpdate, Compositor
from textual.events import ScreenResume
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

Rendered = tuple[Region, Region, list[Strip]]
"""A widget's region, the part of it that was rendered, and the lines of that part."""


def _renders(compositor: Compositor, dirty: Iterable[Region]) -> Iterable[Rendered]:
    painted: list[Region] = []
    # The uppermost widgets come first.
    for widget, (region, clip) in compositor.visible_widgets.items():
        seen = region.intersection(clip)
        touched = [part for part in map(seen.intersection, dirty) if part]
        if touched and not (_is_container(widget) and all(_covered(part, painted) for part in touched)):
            top, bottom = min(part.y for part in touched), max(part.bottom for part in touched)
            # Whole lines: that is what widgets cache.
            part = Region(seen.x, top, seen.width, bottom - top)
            painted.append(part)
            yield region, part, widget.render_lines(part.translate((-region.x, -region.y)))


def _is_container(widget: Widget) -> bool:
    """It paints nothing but its background; one with a `render` of its own may also work in it."""
    kind = type(widget)
    return kind.render in (Widget.render, Screen.render) and kind.render_lines is Widget.render_lines


def _covered(part: Region, painted: Iterable[Region]) -> bool:
    """Whether these regions hide all of the part: most containers are wholly below what they contain."""
    left = [part]
    for region in painted:
        left = [piece for each in left for piece in _without(each, region)]
        if not left:
            return True
    return False


def _without(part: Region, hidden: Region) -> Iterable[Region]:
    """The pieces of a part that a region does not hide."""
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


def _laid_out(screen: Screen[Any], size: Size) -> bool:
    compositor = screen._compositor
    return compositor.root is screen and compositor.size == size and not screen._layout_required


def _look(screen: Screen[Any]) -> tuple[object, ...]:
    """What the styles of a screen depend on outside it; a widget of it is styled whenever it changes."""
    app = screen.app
    return app.theme, app.app_focus, frozenset(app.classes), frozenset(app.pseudo_classes)


def _layout_and_style_once() -> None:
    stock_resized, stock_resume = Screen._screen_resized, Screen._on_screen_resume

    def screen_resized(self: Screen[Any], size: Size) -> None:
        if self.is_active or not _laid_out(self, size):
            stock_resized(self, size)

    def on_screen_resume(self: Screen[Any], event: ScreenResume) -> None:
        holder: Any = self
        look = _look(self)
        if getattr(self, "look_at_resume", look) == look:
            event.refresh_styles = False
        holder.look_at_resume = look
        stock_resume(self, event)

    Screen._screen_resized = screen_resized  # type: ignore[method-assign]
    Screen._on_screen_resume = on_screen_resume  # type: ignore[method-assign]


def install() -> None:
    """Patch every screen and its compositor."""
    _layout_and_style_once()
    stock = Compositor._get_renders

    def render_partial_update(self: Compositor) -> ChopsUpdate | None:
        dirty = [part for part in map(self.size.region.intersection, self._dirty_regions) if part]
        self._dirty_regions.clear()
        if not dirty:
            return None
        spans = list(self._regions_to_spans(dirty))
        holder: Any = self
        holder.dirty_now = dirty
        try:
            chops: Any = self._render_chops(Region.from_union(dirty), {y for y, _, _ in spans}.__contains__)
        finally:
            del holder.dirty_now
        return ChopsUpdate(chops, spans, [cuts[1:] for cuts in self.cuts])

    def get_renders(self: Compositor, crop: Region | None = None) -> Iterable[Rendered]:
        dirty = getattr(self, "dirty_now", None)
        return stock(self, crop) if dirty is None else _renders(self, dirty)

    Compositor.render_partial_update = render_partial_update  # type: ignore[method-assign]
    Compositor._get_renders = get_renders  # type: ignore[method-assign]
