"""The check of a canary: real predictions through its endpoint, with error rate and latency."""

from __future__ import annotations

import base64
import io
import itertools
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.cloud_paths import local_path
from trainer.pipeline.vertex import Vertex

COLOURS = {"red": (220, 40, 40), "green": (40, 180, 70), "blue": (50, 80, 220), "yellow": (230, 210, 60)}
_SIDE = 128
_QUANTILE = 0.95


@dataclass(frozen=True, slots=True)
class CanaryCheck:
    """The result of the predictions. `latency` is the 95th percentile of the canary's latencies, in
    seconds."""

    requests: int
    errors: int
    canary: int
    """Number of predictions that the canary answered."""
    latency: float
    last_error: str = ""

    def problem(self, max_error_rate: float, max_latency: float) -> str:
        """Return why the canary fails the check, or "" if there is no problem."""
        if self.errors > max_error_rate * self.requests:
            return f"{self.errors} of {self.requests} predictions failed; the last error: {self.last_error}"
        if not self.canary:
            return f"the canary answered none of the {self.requests} predictions"
        if self.latency > max_latency:
            return f"the canary must answer within {max_latency:g} s, not {self.latency:.3f} s"
        return ""


def check(vertex: Vertex, endpoint: str, deployed: str, requests: int, questions: str = "") -> CanaryCheck:
    """Send predictions; the endpoint routes them by its traffic split. A failed prediction does not name its
    model, so it counts against the canary."""
    from google.api_core.exceptions import GoogleAPICallError, RetryError  # noqa: PLC0415

    latencies: list[float] = []
    errors, last = 0, ""
    for instance in itertools.islice(instances(questions), requests):
        began = time.monotonic()
        try:
            reply = vertex.predictions.predict(
                endpoint=endpoint, instances=[instance], retry=None, timeout=60
            )
        except (GoogleAPICallError, RetryError) as error:
            errors, last = errors + 1, str(error)
            continue
        seconds = time.monotonic() - began
        answers = [dict(prediction).get("answer") for prediction in reply.predictions]
        if len(answers) != 1 or not isinstance(answers[0], str):
            errors, last = errors + 1, f"the reply must be an answer: {answers}"
        elif reply.deployed_model_id == deployed:
            latencies.append(seconds)
    return CanaryCheck(requests, errors, len(latencies), quantile(latencies, _QUANTILE), last)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this fraction of the values does not exceed; nan without
    values."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def instances(questions: str = "") -> Iterator[dict[str, str]]:
    """Yield endless instances: from a .jsonl file of images with questions, or drawn."""
    if not questions:
        yield from (drawn(number) for number in itertools.count())
    path = local_path(questions)
    lines: list[Any] = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{questions} has no questions")
    for line in itertools.cycle(lines):
        data = (path.parent / local_path(str(line["image"]))).read_bytes()
        yield {"image": base64.b64encode(data).decode(), "question": str(line["question"])}


def drawn(number: int) -> dict[str, str]:
    """Draw a square of one colour on grey, with a question about its colour."""
    from PIL import Image, ImageDraw  # noqa: PLC0415

    colour = list(COLOURS.values())[number % len(COLOURS)]
    image = Image.new("RGB", (_SIDE, _SIDE), (115, 115, 115))
    place = 16 + number * 7 % 48
    ImageDraw.Draw(image).rectangle((place, place, place + 40, place + 40), fill=colour)
    file = io.BytesIO()
    image.save(file, "PNG")
    data = base64.b64encode(file.getvalue()).decode()
    return {"image": data, "question": "Which colour has the square?"}
