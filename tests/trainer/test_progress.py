"""The console reads the lines that transformers itself writes."""

from __future__ import annotations

import contextlib
import io
from types import SimpleNamespace

import pytest

from tests.unit.progress_dialects_support import read_all


def test_progress_of_hugging_faces_own_callbacks() -> None:
    callbacks = pytest.importorskip("transformers.trainer_callback")
    bar, printed = io.StringIO(), io.StringIO()
    said: list[str] = []
    state = SimpleNamespace(
        max_steps=40, global_step=0, is_world_process_zero=True, is_local_process_zero=True
    )
    with contextlib.redirect_stderr(bar), contextlib.redirect_stdout(printed):
        callback = callbacks.ProgressCallback()
        callback.on_train_begin(None, state, None)
        callback.training_bar.mininterval = 0
        for step in range(1, 21):
            state.global_step = step
            callback.on_step_end(None, state, None)
            said.append(bar.getvalue())
            bar.seek(0)
            bar.truncate()
            if step % 5 == 0:
                logs = {"loss": 3 - step / 20, "grad_norm": 0.81, "learning_rate": 5e-5, "epoch": step / 10}
                callback.on_log(None, state, None, logs)
                said.append(printed.getvalue().splitlines()[-1])
        callback.on_train_end(None, state, None)
    reader, steps = read_all(text for text in said if text.strip())
    progress = reader.progress
    assert (progress.step, progress.total_steps) == (20, 40)
    assert (progress.first_loss, progress.last_loss) == (2.75, 2.0)
    assert progress.learning_rate == pytest.approx(5e-5)
    assert {step.step: step.loss for step in steps if step.loss is not None} == {
        5: 2.75,
        10: 2.5,
        15: 2.25,
        20: 2.0,
    }
