"""The charts of the reported training steps: loss, throughput, learning rate, and other numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tui.domain.core.formatting import figure, short_unit
from tui.domain.core.text import clip, plain
from tui.domain.core.training_progress import MOST_NUMBERS, TrainingStep
from tui.domain.training.training_steps import History
from tui.widgets.plot.chart import ChartLine
from tui.widgets.plot.view_range import Range, part

Value = Callable[[TrainingStep], float | None]
"""A function that returns the value of a training step to draw."""
LONGEST_TITLE = 30
MOST_SAMPLES = 1_000
"""Number of steps drawn in the charts of other numbers; a terminal has fewer columns."""


@dataclass(frozen=True, slots=True)
class TrainingChart:
    """One chart. `from_zero` starts the y axis at 0."""

    key: str
    title: str
    unit: str
    text: Callable[[float], str]
    value: Value
    from_zero: bool = False


def loss_text(value: float) -> str:
    """Format a loss with enough digits for its chart."""
    return f"{value:.4g}"


def percent(value: float) -> str:
    """Format a fraction as `61%`."""
    return f"{value * 100:.0f}%"


def clock_text(seconds: float) -> str:
    """Format seconds as `40s`, `9m`, `9m30`, `5h02`, `2d`, `2d06h`: the shortest distinct ticks."""
    whole = round(abs(seconds))
    sign = "-" if seconds < 0 and whole else ""
    minutes, rest = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{sign}{days}d" + (f"{hour:02}h" if hour else "")
    if hours:
        return f"{sign}{hours}h{minute:02}"
    if minutes:
        return f"{sign}{minutes}m" + (f"{rest:02}" if rest else "")
    return f"{sign}{whole}s" if whole else "0"


def main_charts(samples: Sequence[TrainingStep]) -> Iterator[TrainingChart]:
    """Yield loss and throughput, in the unit of the newest speed."""
    yield TrainingChart("loss", "Loss", "", loss_text, lambda sample: sample.loss)
    unit = next((s.speed_unit for s in reversed(samples) if s.speed is not None), "")
    yield TrainingChart("speed", "Throughput", short_unit(unit), figure, _speed_in(unit), from_zero=True)


def other_charts(samples: Sequence[TrainingStep]) -> Iterator[TrainingChart]:
    """Yield the learning rate and the other numbers of these steps by name, in order of appearance."""
    yield TrainingChart("learning-rate", "Learning rate", "", loss_text, lambda sample: sample.learning_rate)
    numbers = {id(sample): dict(sample.numbers) for sample in samples}
    names = dict.fromkeys(name for number in numbers.values() for name in number)
    for name in list(names)[:MOST_NUMBERS]:
        title = clip(plain(name).replace("_", " ").strip(), LONGEST_TITLE)
        value = _number_of(numbers, name)
        yield TrainingChart(f"number:{name}", title[:1].upper() + title[1:], "", loss_text, value)


def thinned(samples: Sequence[TrainingStep]) -> Sequence[TrainingStep]:
    """Return at most `MOST_SAMPLES` of the steps at even distances, and the last step."""
    stride = -(-len(samples) // MOST_SAMPLES)
    return samples if stride <= 1 else (*samples[:-1:stride], samples[-1])


def thinned_history(past: History) -> History:
    """Return the points that led to the current step, and the points of each undone stretch."""
    return History(tuple(thinned(past.kept)), tuple(tuple(thinned(stretch)) for stretch in past.undone))


def _speed_in(unit: str) -> Value:
    return lambda sample: sample.speed if sample.speed_unit == unit else None


def _number_of(numbers: Mapping[int, Mapping[str, float]], name: str) -> Value:
    return lambda sample: numbers[id(sample)].get(name)


def line_part(line: ChartLine, window: Range) -> ChartLine:
    """Return the points of a line within the window, and one beyond each edge."""
    x, y = part(line.x, line.y, window)
    return ChartLine(line.name, tuple(x), tuple(y), line.colour)


def step_line(known: Sequence[tuple[TrainingStep, float]], colour: str, *, faint: bool = False) -> ChartLine:
    """Return the values of training steps over the steps."""
    return ChartLine("", tuple(float(s.step) for s, _ in known), tuple(y for _, y in known), colour, faint)
