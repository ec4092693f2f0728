"""The state of a pipeline's task as a person says it."""

from __future__ import annotations

from textual.content import Content

from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.pipeline.facts import CACHED
from tui.widgets.state import state_content

WORDS = {CACHED: "cached", "NOT_TRIGGERED": "not triggered"}
"""What the service's states of a skipped task mean."""


def task_state(task: Task) -> Content:
    """Glyph and word."""
    word = WORDS.get(task.native_state)
    if word is None:
        return state_content(task.state)
    # What a cached task has made is there.
    state = JobState.SUCCEEDED if task.native_state == CACHED else task.state
    return Content.assemble(state_content(state, word=False), (f" {word}", "$text-muted"))
