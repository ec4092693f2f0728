"""Nothing that a terminal would obey survives `plain`, and nothing else is lost."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.domain.core.text import clip, plain, sentences


@given(st.text())
@settings(max_examples=300)
def test_no_control_character_survives(text: str) -> None:
    shown = plain(text)
    assert not any(unicodedata.category(c) == "Cc" for c in shown)
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u200e\u200f")


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs"])))
@settings(max_examples=200)
def test_ordinary_text_is_untouched(text: str) -> None:
    assert plain(text) == text


def test_sequences_vanish_whole_and_their_text_stays() -> None:
    assert plain("\x1b[31mred\x1b[0m") == "red"
    assert plain("\x1b]0;title\x07after") == "after"
    assert plain("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "link"
    assert plain("\x9b2Jx") == "x"
    assert plain("a\tb") == "a   b"
    assert plain("a\rb\x00") == "a␍b␀"
    assert plain("[/] [bold] stays") == "[/] [bold] stays"


@given(st.text(), st.integers(1, 40))
@settings(max_examples=100)
def test_clip_is_never_wider(text: str, width: int) -> None:
    assert len(clip(text, width)) <= width
    if len(text) <= width:
        assert clip(text, width) == text


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("Socket closed", "Whether it is there?"), "Socket closed. Whether it is there?"),
        (("It is gone.", "", " Look again. "), "It is gone. Look again."),
        (("Really?", "Say so"), "Really? Say so"),
        (("one",), "one"),
        ((), ""),
    ],
)  # fmt: skip
def test_sentences_do_not_run_together(parts: tuple[str, ...], text: str) -> None:
    assert sentences(*parts) == text
