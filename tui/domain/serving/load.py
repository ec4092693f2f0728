"""The load of a deployed model: requests, errors and latency over the last minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Load:
    """Requests to one deployed model in `seconds`; latencies are in ms; `None` if there is no measurement."""

    requests: int
    seconds: float
    errors: Mapping[str, int] = field(default_factory=dict)
    """Errors by class of the HTTP status, e.g. "5xx"."""
    p50: float | None = None
    p95: float | None = None

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def failed(self) -> int:
        """Requests that ended with an error."""
        return sum(self.errors.values())

    @property
    def error_share(self) -> float | None:
        """Fraction of failed requests, 0 to 1; `None` if there are no requests."""
        return self.failed / self.requests if self.requests else None

    @property
    def error_text(self) -> str:
        """Errors as text: `12 % 5xx` (the most frequent class), `0` for no errors; "" if there are no
        requests."""
        if self.error_share is None:
            return ""
        if not self.failed:
            return "0"
        worst = max(self.errors, key=lambda code: self.errors[code])
        percent = self.error_share * 100
        share = f"{percent:.0f}" if percent >= 10 else f"{percent:.1f}"
        return f"{share} % {worst}"


def latency_text(milliseconds: float | None) -> str:
    """Format a latency: `3.2 ms`, `140 ms`, `2.1 s`; "" if there is no measurement."""
    if milliseconds is None:
        return ""
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"


def rate_text(load: Load) -> str:
    """Format requests per second with three digits."""
    rate = load.rate
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 10 else f"{rate:.2f}" if rate else "0"
