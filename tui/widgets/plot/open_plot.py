"""A plot without a frame: a thin axis at the left and a thin axis at the foot.

textual-plot always draws a thick box around a plot, with ticks on all four sides, and has no setting for it
(0.10.1). `OpenPlot` replaces the box at the edges of the canvas.
"""

from __future__ import annotations

from textual_hires_canvas import Canvas
from textual_plot import PlotWidget

_SIDE, _FOOT, _CORNER = "┃┏", "━┗┛", "└"


class OpenPlot(PlotWidget):
    """A plot with thin axes. The module imports numpy, so import it only when a plot is mounted."""

    def _render_plot(self) -> None:
        super()._render_plot()
        canvas = self.query_one("#plot", Canvas)
        width, height = self._scale_rectangle.width + 2, self._scale_rectangle.height + 2
        if canvas._canvas_size is None or width < 3 or height < 3:
            return
        axis = str(self.get_component_rich_style("plot--axis"))
        for x in range(width):
            canvas.set_pixel(x, 0, " ", axis)
            drawn = canvas.get_pixel(x, height - 1)[0]
            canvas.set_pixel(x, height - 1, "─" if drawn in _FOOT else "┬", axis)
        for y in range(height - 1):
            drawn = canvas.get_pixel(0, y)[0] if y else _SIDE[0]
            canvas.set_pixel(0, y, "│" if drawn in _SIDE else "┤", axis)
            canvas.set_pixel(width - 1, y, " ", axis)
        canvas.set_pixel(0, height - 1, _CORNER, axis)
        for line in self._v_lines:
            x, _ = self.get_pixel_from_coordinate(line.x, 0)
            canvas.set_pixel(x, 0, "│", line.line_style)
            canvas.set_pixel(x, height - 1, "┴", axis)
