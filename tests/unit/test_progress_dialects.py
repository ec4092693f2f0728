"""Lines of trainers that know nothing of vxtui: the corpus, lines that look alike, and any text at all."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.progress_dialects_support import CORPUS, FILES, log_entry, negative, read_all
from tui.domain.progress.dialects import DIALECTS, line_reading, may_report, readings
from tui.domain.progress.job_progress import JobProgress
from tui.domain.progress.parsing.reading import duration, number

FEATURES = {
    "speed": lambda progress: progress.speed,
    "learning_rate": lambda progress: progress.learning_rate,
    "remaining": lambda progress: (
        progress.ends_at and (progress.ends_at - progress.updated_at).total_seconds()
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_dialect_is_read(name: str) -> None:
    known = yaml.safe_load((CORPUS / f"{name}.yaml").read_text("utf-8"))
    expected = known["expect"]
    reader, steps = read_all(known["entries"])
    progress = reader.progress
    assert (progress.step, progress.total_steps) == (expected["step"], expected["total"])
    assert progress.first_loss == pytest.approx(expected["first_loss"])
    assert progress.last_loss == pytest.approx(expected["last_loss"])
    for feature in FEATURES.keys() & expected:
        assert FEATURES[feature](progress) == pytest.approx(expected[feature], rel=1e-3), feature
    if "unit" in expected:
        assert progress.speed_unit == expected["unit"]
    if "dialect" in known:
        assert progress.dialect == known["dialect"]
    losses = {step.step: step.loss for step in steps if step.loss is not None}
    for number_, loss in known.get("steps", {}).items():
        assert losses[number_] == pytest.approx(loss)
    if "steps" in known:
        assert set(losses) == set(known["steps"])
    assert set(known.get("numbers", ())) <= {name for step in steps for name, _ in step.numbers}


def test_every_dialect_has_lines_in_the_corpus() -> None:
    taken = set()
    for name in FILES:
        for said in yaml.safe_load((CORPUS / f"{name}.yaml").read_text("utf-8"))["entries"]:
            for text in str(said.get("message", "") if isinstance(said, dict) else said).split("\r"):
                taken |= {read for read in DIALECTS if read(text.strip("\b")) is not None}
    assert taken == set(DIALECTS)


@pytest.mark.parametrize("said", negative(), ids=lambda said: str(said)[:40])
def test_a_line_that_only_looks_alike_is_no_step(said: str | dict[str, Any]) -> None:
    reader, steps = read_all([said])
    assert not steps
    assert (reader.progress.step, reader.progress.last_loss) == (None, None)


def test_lines_that_only_look_alike_are_no_step_together() -> None:
    """A head without values, or a row without a header, does not make a step of another line."""
    reader, steps = read_all(negative())
    assert not steps
    assert (reader.progress.step, reader.progress.last_loss, reader.progress.speed) == (None, None, None)


def test_the_service_is_not_read() -> None:
    reader = JobProgress()
    assert not reader.add(log_entry("step 3 loss 2.13", replica="service"))


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,234", 1234), ("6.912345E+00", 6.912345), ("41.8k", 41_800), ("-0.5", -0.5), ("x", None), ("", None)],
)
def test_numbers(text: str, value: float | None) -> None:
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("16:20", 980), ("1:02:03", 3723), ("2 days, 1:02:03", 176_523), ("45s", 45), ("?", None), ("9", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    found = duration(text)
    assert (None if found is None else found.total_seconds()) == seconds


# What tqdm itself writes

meters = st.fixed_dictionaries({
    "n": st.integers(0, 10**7),
    "beyond": st.integers(0, 10**7) | st.none(),
    "elapsed": st.floats(0.001, 10**6),
    "rate": st.floats(1e-4, 1e5) | st.none(),
    "prefix": st.sampled_from(["", "train", "Epoch 3", "epoch 3/10"]),
    "ncols": st.sampled_from([None, 80, 120]),
    "ascii": st.booleans(),
})  # fmt: skip


@settings(max_examples=150)
@given(meters, st.floats(-10, 1e4).map("{:.3g}".format))
def test_every_bar_that_tqdm_writes_is_read(meter: dict[str, Any], loss: str) -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    beyond = meter.pop("beyond")
    total = None if beyond is None else meter["n"] + beyond or None
    text = tqdm.format_meter(total=total, postfix=f"loss={loss}", **meter)
    found = line_reading(text)
    # What does not fit the columns is cut, the numbers with it.
    if f"loss={loss}]" in text:
        assert found is not None and found.bar is not None, text
        assert (found.bar.step, found.bar.total) == (meter["n"], total), text
        assert found.loss == pytest.approx(float(loss))
        assert found.speed is None or found.speed > 0


# Any text

hints = st.sampled_from([
    "loss", "loss: ", "'loss': ", "step ", "step=", "61/2000", " [00:31<16:20,  1.98it/s", "%|", "1.5",
    "1,000", "nan", "\r", "\x1b[31m", "it/s", "s/it", "Epoch 1/5", "{'", '{"', "}", "|", "━", "•",
    "1" * 50, ",1" * 30,
    " " * 50, "(" * 20, "skipped=", "lr=[", "\u0661", "\ud800", "²", "1e999", "-", "999999999999999999999",
])  # fmt: skip


@settings(max_examples=150)
@given(st.lists(hints | st.text(max_size=20), max_size=30).map("".join))
def test_no_text_breaks_it(text: str) -> None:
    reader = JobProgress()
    for step in reader.add(log_entry(text)):
        assert step.step >= 0
    for read in DIALECTS:
        read(text)


json_values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just([1])
names = st.sampled_from(
    ["step", "global_step", "loss", "train_loss", "lr", "total", "epoch", "metrics", "rank"]
)


inner = st.dictionaries(names, json_values, max_size=3)


@settings(max_examples=100)
@given(st.dictionaries(names | st.text(max_size=8), json_values | inner, max_size=8))
def test_no_object_breaks_it(payload: dict[str, Any]) -> None:
    for step in JobProgress().add(log_entry(payload)):
        assert step.step >= 0 and len(step.numbers) <= 24


@pytest.mark.parametrize(
    "seed", ["1", "1,", "1/", "a=1 ", "loss: ", "1 [", "Epoch ", "%|", "━", " ", "(", "{'", ".1", "1\r"]
)
def test_the_time_grows_with_the_length_of_the_text(seed: str) -> None:
    """Twice the text takes at most a few times as long, with whatever it is filled."""
    head = "step 1 loss 2.1 it/s s/it [ <, "

    def seconds(size: int) -> float:
        text = head + (seed * (size // len(seed)))
        best = 1.0
        for _ in range(3):
            began = time.thread_time()
            readings(log_entry(text))
            for read in DIALECTS:
                read(text)
            best = min(best, time.thread_time() - began)
        return best

    small, large = seconds(2_000), seconds(16_000)
    # Linear is 8 and quadratic 64; below a millisecond a clock says little.
    assert large < 24 * max(small, 0.001)


def test_a_line_of_other_work_costs_little() -> None:
    """The check before any pattern is for speed: it must let nearly no ordinary line through."""
    lines = [str(said) for said in negative()]
    ordinary = [
        "2026-11-22 10:00:00,123 INFO root: connected to 10.0.0.1:8080",
        "NCCL INFO Channel 00/02 :    0   1   2   3",
        "Collecting transformers==5.23.0",
        '10.0.0.1 - - [22/Nov/2026:17:35:24 +0000] "GET /index.html HTTP/1.1" 200 612',
    ]
    assert not any(map(may_report, ordinary))
    assert lines
