"""What several tests share with test_pipelines."""

from __future__ import annotations

from typing import Any

from tests.wire.pipelines import (
    container,
    leaf,
    task,
)

OUT = "{{$.outputs.parameters['out'].output_file}}"
TEXT = "{{$.inputs.parameters['text']}}"
SAY = container('printf "%s" "$0" > "$1"; echo "said $0"', TEXT, OUT)
SAYS = leaf("say", {"text": "STRING"}, out="STRING")
FAIL = container("exit 3")


def say(text: Any, **more: Any) -> dict[str, Any]:
    return task("say", inputs={"text": text}, **more)
