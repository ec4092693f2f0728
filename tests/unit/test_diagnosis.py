"""What errors mean, on the platform's documented sentences and on lines that programs write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tui.domain.core.diagnosis import Diagnosis, diagnose, explain_exit
from tui.domain.core.job import Job, JobError
from tui.domain.core.states import JobState
from tui.domain.jobs.diagnosis import diagnosis_of


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        (
            "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.",
            "own memory",
        ),
        ("The resources are insufficient in region: us-central1. Please try again later.", "capacity"),
        (
            "The following quota metrics exceed quota limits: "
            "aiplatform.googleapis.com/custom_model_training_nvidia_a100_gpus",
            "quota",
        ),
        ('Machine type "a9-mega" is not supported.', "machine type"),
        ("You do not have permission to act as service account: x@y (or it may not exist).", "act as"),
        ('Image "us-docker.pkg.dev/p/r/i:1" does not exist.', "not found"),
        ("An internal error occurred for the current attempt.", "platform failed"),
        ("Internal error: the process that ran this job's replicas died, and its", "emulator could not run"),
        ("Internal error: the emulator failed on this job; `vxtui emulator logs`", "emulator could not run"),
    ],
)
def test_the_platforms_sentences(message: str, meaning: str) -> None:
    found = diagnose(message)
    assert meaning in found.meaning and found.fix and not found.guess


def test_an_exit_code_is_explained_by_the_replicas_last_lines() -> None:
    message = "The replica workerpool1-3 exited with a non-zero status of 1."
    plain = diagnose(message, ["step 3"])
    assert plain.meaning == "workerpool1-3 ended with code 1: an error of the program."
    assert plain.fix == "Read its log: `vxtui logs JOB --replica workerpool1-3`."
    assert "below" in plain.on_screen
    cuda = diagnose(message, ["step 3", "torch.OutOfMemoryError: CUDA out of memory."])
    assert "GPU" in cuda.meaning and cuda.guess


def test_without_lines_the_fix_promises_none() -> None:
    message = "The replica workerpool1-3 exited with a non-zero status of 1."
    unread, silent = diagnose(message, job="7"), diagnose(message, whole=True)
    assert "below" not in unread.on_screen and "complete log" in unread.on_screen and "logs 7 " in unread.fix
    assert "wrote nothing" in silent.on_screen and "Spec" in silent.on_screen
    assert "below" not in silent.on_screen and "Spec" not in silent.fix


def test_an_unknown_error_still_says_where_to_look() -> None:
    found = diagnose("something new")
    assert found.meaning == "" and "log" in found.fix


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (75, "stopped after a checkpoint, to continue later"),
        (127, "the command was not found"),
        (137, "ended by SIGKILL, often out of memory (OOM)"),
        (143, "ended by SIGTERM"),
        (250, "an error of the program"),
        (203, "stopped after a checkpoint, to continue later"),
        (76, "the other nodes did not join in time"),
        (3, "an error of the program"),
    ],
)
def test_exit_codes(code: int, words: str) -> None:
    assert explain_exit(code) == words


def failed(message: str, **more: Any) -> Job:
    return Job(
        "n", "7", "bert", JobState.FAILED, "", "c", "r", "custom_job", error=JobError(3, message), **more
    )


def test_the_diagnosis_of_a_job_is_that_of_its_service_then_that_of_its_error() -> None:
    told = Diagnosis("It was evicted.", "Request more memory.")
    assert diagnosis_of(failed("internal error", diagnosis=told)) == told
    found = diagnosis_of(failed("internal error"))
    assert found is not None and "platform failed" in found.meaning
    cancelled = replace(failed("internal error", diagnosis=told), state=JobState.CANCELLED)
    assert diagnosis_of(cancelled) is None
    assert diagnosis_of(replace(failed(""), error=None)) is None
