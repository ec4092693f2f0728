"""What errors mean, on the platform's documented sentences and on lines that programs write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tui.domain.core.diagnosis import Diagnosis, explain_exit
from tui.domain.core.job import Job, JobError
from tui.domain.core.states import JobState
from tui.domain.diagnosis.verdict import Verdict
from tui.domain.jobs.diagnosis import diagnosis_of


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        ("The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.", "memory"),
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
    ],
)
def test_the_platforms_sentences(message: str, meaning: str) -> None:
    found = diagnosis_of(failed(message))
    assert found is not None and meaning in found.meaning and found.fix


def test_an_exit_code_alone_names_the_log_to_read() -> None:
    found = diagnosis_of(failed("The replica workerpool1-3 exited with a non-zero status of 1."))
    assert found == replace(found, meaning="") and "vxtui logs 7" in found.fix


def test_the_log_explains_an_exit_code() -> None:
    message = "The replica workerpool1-3 exited with a non-zero status of 1."
    found = diagnosis_of(failed(message), Verdict("CUDA out of memory", next="Use less.", confidence=0.9))
    assert found == Diagnosis("CUDA out of memory.", "Use less.")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (75, "stopped after a checkpoint, to continue later"),
        (127, "the command was not found"),
        (137, "ended by SIGKILL, often out of memory (OOM)"),
        (143, "ended by SIGTERM"),
        (9, "ended by SIGKILL, often out of memory (OOM)"),
        (250, "ended by SIGABRT"),
        (222, "an error of the program"),
        (255, "an error of the program"),
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
