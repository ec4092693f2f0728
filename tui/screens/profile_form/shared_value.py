"""The question for a value that several parts of a file share by an anchor: change one pool, or all."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from textual.content import Content

from tui.domain.core.formatting import pieces
from tui.domain.core.text import clip
from tui.domain.form.choices import pool_in
from tui.domain.form.values import Path
from tui.domain.masking import mask_text
from tui.screens.dialogs.choice import REASONS_SHARE, ChoiceScreen
from tui.screens.profile_form.diff import diff_line

HERE, EVERYWHERE = "t", "a"
"""The answers: change one pool, or all."""
LINE_WIDTH = 66
"""Number of characters of a changed line that fit into the dialog at 80 columns."""


@dataclass(frozen=True, slots=True)
class SharedChange:
    """A change of a shared value: the paths that share it, the edited path first, and both outcomes.

    A diff contains only the removed and added lines, without secrets.
    """

    paths: Sequence[Path]
    here: str
    everywhere: str
    diff_here: Sequence[str]
    diff_everywhere: Sequence[str]

    def text(self, answer: str) -> str:
        """Return the file's text after the answer."""
        return self.everywhere if answer == EVERYWHERE else self.here

    def pools(self) -> list[int]:
        """Return the positions of the pools that share the value; none if the paths are not one per pool."""
        pools = [pool_in(path) for path in self.paths]
        positions = sorted({int(pool[-1]) for pool in pools if pool is not None})
        return positions if None not in pools and len(positions) > 1 else []


def question(change: SharedChange, height: int) -> ChoiceScreen:
    """Return the question for a screen of `height` rows."""
    pools = change.pools()
    if pools:
        listed = ", ".join(map(str, pools[:-1])) + f" and {pools[-1]}"
        title = f"Pools {listed} share this value"
        here, everywhere = "this pool", f"all {len(pools)} pools that share it"
    else:
        title, here, everywhere = "Other places share this value", "only here", "all that share it"
    diffs = [(here, change.diff_here), (everywhere, change.diff_everywhere)]
    answers = [
        (key, label, f"{pieces(len(lines), 'line')} {'changes' if len(lines) == 1 else 'change'}")
        for key, (label, lines) in zip((HERE, EVERYWHERE), diffs, strict=True)
    ]
    return ChoiceScreen(title, answers, list(_preview(diffs, height * REASONS_SHARE // 100)))


def _preview(diffs: Sequence[tuple[str, Sequence[str]]], rows: int) -> Iterable[Content]:
    """Yield each answer with its changed lines, in at most `rows` rows."""
    fair = max(2, rows // len(diffs) - 1)
    spare = sum(max(0, fair - len(lines)) for _, lines in diffs)
    for label, lines in diffs:
        room = fair + spare
        yield Content.styled(label, "$text-muted")
        # Remove only the common indent, so that the nesting stays visible.
        texts = textwrap.dedent("\n".join(line[1:] for line in lines)).split("\n")
        shown = [f"{line[:1]} {clip(text, LINE_WIDTH)}" for line, text in zip(lines, texts, strict=True)]
        cut = len(shown) > room
        yield from map(diff_line, shown[: room - 1] if cut else shown)
        if cut:
            yield Content.styled(f"… {pieces(len(shown) - room + 1, 'more line')}", "$text-muted")


def without_secrets(lines: Sequence[str], secrets: Iterable[str]) -> list[str]:
    """Return the lines with masked secrets."""
    known = set(secrets)
    return [mask_text(line, known) for line in lines]
