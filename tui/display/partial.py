"""Renders only dirty widgets; Textual renders every widget of the screen for each partial update.

Its compositor asks each visible widget for all of its lines and discards most of them: for a cursor that
moves one row on a screen of ten widgets that is half of the time of a key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip

Rendered = tuple[Region, Region, list[Strip]]
"""A widget's region, the part of it that was rendered, and the lines of that part."""


def _renders(compositor: Compositor, dirty: Iterable[Region]) -> Iterable[Rendered]:
    for widget, (region, clip) in compositor.visible_widgets.items():
        seen = region.intersection(clip)
        touched = [part for part in map(seen.intersection, dirty) if part]
        if touched:
            top, bottom = min(part.y for part in touched), max(part.bottom for part in touched)
            # Whole lines: that is what widgets cache.
            part = Region(seen.x, top, seen.width, bottom - top)
            yield region, part, widget.render_lines(part.translate((-region.x, -region.y)))


def install() -> None:
    """Patch the compositor of every screen."""
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
