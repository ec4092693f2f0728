"""The state of a pipeline's task in words."""

from __future__ import annotations

from textual.content import Content

from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.pipeline.facts import CACHED
from tui.widgets.state import state_content

WORDS = {CACHED: "cached", "NOT_TRIGGERED": "not triggered"}
"""The meaning of the service's states of a skipped task."""


def task_state(task: Task) -> Content:
    """Glyph and word."""
    word = WORDS.get(task.native_state)
    if word is None:
        return state_content(task.state)
    # A cached task has its outputs.
    state = JobState.SUCCEEDED if task.native_state == CACHED else task.state
    return Content.assemble(state_content(state, word=False), (f" {word}", "$text-muted"))
