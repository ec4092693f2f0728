"""What a kube-apiserver has answered, in the words of the console."""

from __future__ import annotations

import json
from pathlib import Path

from tui.backends.errors import BackendError, InvalidRequest
from tui.backends.kubernetes.errors import from_status

RECORDED = Path(__file__).parents[2] / "wire" / "kubernetes_answers" / "recorded"


def said(topic: str, call: str) -> BackendError:
    answers = json.loads((RECORDED / f"{topic}.json").read_text())
    return from_status(answers[call]["body"], "create it")


def test_causes_that_only_name_the_object_are_left_out() -> None:
    one = said("custom-refusals", "no runtime")
    assert one.message == (
        'Can\'t create it: TrainJob.trainer.kubeflow.org "t" is invalid: spec.runtimeRef.name: Required value'
    )
    assert isinstance(one, InvalidRequest) and one.fields == {"spec.runtimeRef.name": "Required value"}
    two = said("custom-refusals", "fraction").message
    assert "<nil>" not in two and two.endswith("expected int64]") and " is invalid: [spec." in two
    name = said("custom-refusals", "train name")
    assert name.message.endswith("is invalid: metadata.name must match RFC 1035 DNS label format")
