"""What several tests share with test_display_equal."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

RANDOM = settings(
    max_examples=4, database=None, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
