"""Jobs that only a broken or a hostile user makes: names, labels, output and figures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.wire.control import pool

HOSTILE_TEXT = (
    "\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b]52;c;aGk=\x07", "\x9b31m", "\x1bP+q\x1b\\", "\x1b[?1049l",
    "\r", "\x08\x08", "\x00", "\x7f", "\x85", "\u2028", "\u202e", "\u2066", "[red]", "[/]",
    "[@click=app.quit]x[/]", "{{x}}", "{0}", "%s%n", "'", '"', "`id`", "$(id)", "; rm", "日本語",
    "e\u0301\u0301\u0301", "\u200d\u200b", "\ufeff", "\ufdfa" * 3, "\U0001f469\u200d\U0001f467",
    "\U000e0041", "\ufffe", "..", "../../x", "-", "--json", "=", "\\", "\\x1b[2J", "&#27;", "None", "null",
    "nan", "1e999", " ", "\t",
)  # fmt: skip
FIGURES: tuple[Any, ...] = (
    0, 1, -1, 7, 0.5, 1e17, 1e308, -1e308, 5e-324, 10**30, -(10**30), float("nan"), float("inf"), True,
    None, "7", "x" * 300, [], {}, [[]], {"step": 1}, "\x1b[2J", "1e400",
)  # fmt: skip
FIELDS = (
    "kind", "step", "total_steps", "loss", "tokens_per_second", "learning_rate", "grad_norm", "seconds",
    "gpus", "goodput", "phase", "state", "attempt", "rank", "epoch", "accuracy",
)  # fmt: skip
KINDS = (
    "step", "rank", "gpu", "checkpoint", "phase", "resumed", "eval", "guard", "hang", "save_failed",
    "error", "done", "\x1b[2J",
)  # fmt: skip
PROGRESS = (
    "step {0}/{1} loss {2}", "{{'loss': {2}, 'step': {0}}}", "step={0} loss={2} lr={1}",
    "Epoch {0}/{1}: 100%|██| {0}/{1} [00:00<00:00, {2}it/s]",
    "{2}%|█| {0}/{1} [99:99<??, {2}s/it, loss={2}]", "iteration {0} | loss: {2} | throughput {1}",
)  # fmt: skip
NUMBERS = (
    "0", "-1", "7", "1e308", "1e400", "nan", "inf", "9" * 300, "99999999999999991611392", "1e-320", "0x7",
    "1_000", "",
)  # fmt: skip
START = datetime(2026, 1, 1, tzinfo=UTC)

piece = st.one_of(st.sampled_from(HOSTILE_TEXT), st.text(max_size=8))
text = st.lists(piece, max_size=6).map("".join)


@st.composite
def figures(draw: st.DrawFn) -> dict[str, Any]:
    """Fields of a structured line, each of any type."""
    fields = draw(st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(FIGURES), max_size=6))
    return {"kind": draw(st.sampled_from(KINDS)), **fields}


@st.composite
def structured(draw: st.DrawFn) -> str:
    """A JSON line with a time, a severity and figures that may be those of no time, severity or figure."""
    line: dict[str, Any] = {
        "message": draw(text),
        "vxtui": draw(st.one_of(figures(), st.sampled_from(FIGURES))),
    }
    if draw(st.booleans()):
        line["severity"] = draw(st.sampled_from(("INFO", "ERROR", "critical", "", "\x1b[2J", 7, None)))
    if draw(st.booleans()):
        at = START + timedelta(seconds=draw(st.integers(-(10**9), 10**9)))
        line["timestamp"] = draw(
            st.sampled_from((at.isoformat(), at.timestamp(), "yesterday", "0000-00-00T00:00:00Z", None))
        )
    if draw(st.booleans()):
        line["timestampSeconds"] = draw(
            st.sampled_from((0, -1, 10**12, int(START.timestamp()), "7", None, 1e300))
        )
        line["timestampNanos"] = draw(st.sampled_from((0, 999999999, 10**10, -1, None)))
    return json.dumps(line, ensure_ascii=draw(st.booleans()))


progress = st.builds(
    str.format,
    st.sampled_from(PROGRESS),
    st.sampled_from(NUMBERS),
    st.sampled_from(NUMBERS),
    st.sampled_from(NUMBERS),
)
long = st.builds(lambda what, times: what * times, piece, st.sampled_from((50, 3000)))
line = st.one_of(text, structured(), progress, long).map(lambda said: said.replace("\n", " "))
output = st.lists(
    st.one_of(
        line.map(lambda said: said.encode("utf-8", "surrogatepass")),
        st.binary(max_size=40).map(lambda b: b.replace(b"\n", b" ")),
    ),
    max_size=30,
)
# What the service takes: a name is any text, a label is of the letters, digits, '-' and '_' of any script.
label = st.text(
    st.characters(categories=("Ll", "Lo", "Nd"), include_characters="-_"), min_size=1, max_size=12
)


@dataclass(frozen=True)
class Hostile:
    """One job; `out` and `err` are the lines that its replica prints."""

    name: str
    labels: dict[str, str]
    env: list[str]
    arguments: list[str]
    out: list[bytes]
    err: list[bytes]
    code: int

    @property
    def printed(self) -> int:
        return len(self.out) + len(self.err)

    def request(self, folder: Path, number: int) -> dict[str, Any]:
        """Its pool, with the output in files of `folder`."""
        names = []
        for stream, lines in (("out", self.out), ("err", self.err)):
            path = folder / f"{number}.{stream}"
            path.write_bytes(b"".join(each + b"\n" for each in lines))
            names.append(str(path))
        return pool(
            "/bin/sh", "-c", 'cat "$0"; cat "$1" >&2; exit "$2"', *names, str(self.code),
            args=self.arguments,
            env=[{"name": f"V{at}", "value": value} for at, value in enumerate(self.env)],
        )  # fmt: skip


argument = text.map(lambda said: said.replace("\x00", "0"))
name = st.builds(lambda a, b: (a + b)[:128], text, st.text(min_size=1, max_size=128))
labels = st.dictionaries(label.filter(lambda key: key[0].isalpha()), label, max_size=3)
arguments = st.lists(argument, max_size=3)
hostile = st.builds(
    Hostile, name, labels, arguments, arguments, output, output, st.sampled_from((0, 0, 1, 7))
)


def harmless(number: int) -> Hostile:
    """A job as people have them, with about as many lines."""
    lines = [f"step {at}/60 loss {2 - at / 50:.3f} lr 1e-4".encode() for at in range(30)]
    return Hostile(f"train-{number}", {"team": "vision"}, ["a"], ["--epochs=3"], lines, lines[:5], 0)
