"""Data classes of which there are tens of thousands.

A frozen data class sets each field through `object.__setattr__`, which makes it take three times as long to
create. A `record(frozen=True, slots=True)` is frozen for the type checker alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    from dataclasses import dataclass

    def record(**_frozen_and_slots):
        """A data class with slots."""
        return dataclass(slots=True)
