"""What several tests share with test_google_components."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[1] / "pipelines_corpus" / "google"
REPORTS = """
import sys, time
from hypertune import HyperTune
given = dict(word.removeprefix("--").split("=") for word in sys.argv[1:])
HyperTune().report_hyperparameter_tuning_metric("loss", float(given["rate"]) + float(given["layers"]), 1)
"""


def compiled(name: str, code: str = "pass") -> dict[str, Any]:
    """A pipeline of the corpus; its containers run Python `code`."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            words = [sys.executable, "-c"] if value[:1] == ["COMMAND"] else value[:1]
            return [filled(each) for each in (*words, *value[1:])]
        return code if value == "ARGUMENT" else value

    found: dict[str, Any] = filled(json.loads((CORPUS / f"{name}.json").read_text()))
    return found
