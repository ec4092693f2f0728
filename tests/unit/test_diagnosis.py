"""What errors mean, on the platform's documented sentences and on lines that programs write."""

from __future__ import annotations

import pytest

from tui.domain.diagnosis import diagnose, explain_exit

POD = "PyTorchJob bert is failed. The replica worker-0 exited with a non-zero status of"


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
        (
            f"{POD} 143 (evicted: The node was low on resource: memory. Threshold quantity: 100Mi).",
            "of memory",
        ),
        (f"{POD} 137 (evicted: The node was low on resource: ephemeral-storage.).", "of disk"),
        (f"{POD} 143 (evicted on request).", "evicted from its node"),
        (f"{POD} 143 (node preempted (GKE Spot)).", "Spot node"),
        (f"{POD} 143 (node lost or shut down).", "shut down or lost"),
        (f"{POD} 143 (preempted by a pod of higher priority).", "higher priority"),
        ("An internal error occurred for the current attempt.", "platform failed"),
    ],
)
def test_the_platforms_sentences(message: str, meaning: str) -> None:
    found = diagnose(message)
    assert meaning in found.meaning and found.fix and not found.guess


def test_an_exit_code_is_explained_by_the_replicas_last_lines() -> None:
    message = "The replica workerpool1-3 exited with a non-zero status of 1."
    plain = diagnose(message, ["step 3"])
    assert plain.meaning == "workerpool1-3 ended with code 1: an error of the program."
    assert "below" in plain.fix
    cuda = diagnose(message, ["step 3", "torch.OutOfMemoryError: CUDA out of memory."])
    assert "GPU" in cuda.meaning and cuda.guess


def test_without_lines_the_fix_promises_none() -> None:
    message = "The replica workerpool1-3 exited with a non-zero status of 1."
    unread, silent = diagnose(message), diagnose(message, whole=True)
    assert "below" not in unread.fix and "whole log" in unread.fix
    assert "wrote nothing" in silent.fix and "Spec" in silent.fix and "below" not in silent.fix


def test_an_unknown_error_still_says_where_to_look() -> None:
    found = diagnose("something new")
    assert found.meaning == "" and "log" in found.fix


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (75, "left after a checkpoint, to go on later"),
        (127, "the command was not found"),
        (137, "ended by SIGKILL, often out of memory (OOM)"),
        (143, "ended by SIGTERM"),
        (250, "an error of the program"),
        (203, "left after a checkpoint, to go on later"),
        (76, "the other nodes did not join in time"),
        (3, "an error of the program"),
    ],
)
def test_exit_codes(code: int, words: str) -> None:
    assert explain_exit(code) == words
