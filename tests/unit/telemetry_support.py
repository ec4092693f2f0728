"""What several tests share with test_telemetry."""

from __future__ import annotations

from datetime import UTC, datetime

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
