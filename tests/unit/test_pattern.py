"""Patterns of users: what they find, what is refused, and that none takes more than linear time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tui.domain.log.pattern import Pattern, PatternError, compile_pattern
from tui.store.log.ripgrep import ascii_classes

SLOW = [
    r"(a+)+$", r"(a|aa)+c", r"(.*a){25}z", r"(a*)*b", r"(\w+\s?)*:$", r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(x+x+)+y", r"(a|a|a)*$", r".*.*.*.*.*=.*", "(?:a?){30}a{30}",
]  # fmt: skip
"""Patterns on which an engine that goes back takes from seconds to years."""
PIECES = [
    "a", "b", "ab", ".", "loss", r"\.", "^", "$", "|", "(", ")", "[ab]", "[^a]", "*", "+", "?", "{2}", r"\d",
    r"\w", r"\s", " ", "ä", "-", r"\-", ":", "1",
]  # fmt: skip
patterns = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
lines = st.lists(st.text(alphabet="ab1 .ä-:losLOS\t", max_size=12), min_size=1, max_size=12)


def python(text: str, *, ignore_case: bool = False) -> re.Pattern[str] | None:
    """The same pattern for Python's engine, with RE2's classes; `None` if it is none there."""
    try:
        return re.compile(ascii_classes(text), re.IGNORECASE if ignore_case else 0)
    except re.error:
        return None


def ours(text: str, *, ignore_case: bool = False) -> Pattern | None:
    try:
        return compile_pattern(text, ignore_case=ignore_case)
    except PatternError:
        return None


@settings(max_examples=400, deadline=None)
@example("a|", ["b", ""], False)
@example("$", ["", "a", ""], False)
@example("[^a]+", ["b", "ab", "", "ä"], False)
@given(patterns, lines, st.booleans())
def test_it_finds_what_pythons_engine_finds(pattern: str, texts: list[str], fold: bool) -> None:
    found, other = ours(pattern, ignore_case=fold), python(pattern, ignore_case=fold)
    if found is None or other is None:
        return
    for text in texts:
        assert found.matches(text) == (other.search(text) is not None)
    among = [at for at, text in enumerate(texts) if other.search(text)]
    assert [*found.among("\n".join(texts), texts)] == among


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["a+", "[äb]+", "(lo|s)", "o", r"\d", "a.", "ä|x", "(ä|)", "(o|)b*"]),
    st.text(alphabet="abä1loS€😀", max_size=20),
)
def test_spans_are_those_of_the_characters(pattern: str, text: str) -> None:
    expected = [m.span() for m in re.finditer(pattern, text) if m.end() > m.start()]
    assert [*compile_pattern(pattern).spans(text)] == expected


@pytest.mark.parametrize("pattern", SLOW)
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    def seconds(size: int) -> float:
        """CPU time of a search, the shortest of three: another process may run in between."""
        text, found = "a" * size + " !", compile_pattern(pattern)
        return min(_cpu(lambda: found.matches(text)) for _ in range(3))

    short = seconds(50_000)
    # Quadratic would be 100 times as long; a linear one is 10, and the clock is coarse.
    assert seconds(500_000) < 30 * max(short, 0.002)


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(a", "missing )"), ("[a", "missing ]"), ("*a", "no argument"), ("a{2000}", "repetition"),
        ("(?=a)", "looks ahead"), ("(?<!a)b", "looks ahead or behind"), (r"(a)\1", "refers back"),
        ("a++b", "possessive"), ("(?#x)a", "comment"), (r"a\Z", r"\z"), ("(?(1)a)", "conditional"),
        ("\ud800(", "half of a surrogate pair"), ("((((((((((a{100}){100}){100}){100})))))))", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_in_a_sentence(pattern: str, said: str) -> None:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_half_of_a_surrogate_pair_counts_as_one_character() -> None:
    assert [*compile_pattern("b+").spans("a\ud800bb")] == [(2, 4)]
    assert [*compile_pattern("b+").spans("ä\ud800bb")] == [(2, 4)]


def test_equal_patterns_are_equal() -> None:
    assert compile_pattern("a+") == compile_pattern("a+")
    assert compile_pattern("a+") != compile_pattern("a+", ignore_case=True)
