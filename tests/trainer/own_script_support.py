"""What several tests share with test_own_script."""

from __future__ import annotations

import json
from typing import Any

from tests.trainer.multi_node_support import Node


def entries(node: Node) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in node.out.read_text().splitlines() if line.startswith("{")]
    return [{**line["vxtui"], "message": line["message"], "severity": line["severity"]} for line in lines]
