"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A profile's bodies are those of the registered kinds; the console's own modules import the registry.
import tui.kinds.registry  # noqa: F401

# A property holds or not; how long an example takes depends on what else the machine does. So no example has
# a deadline, and the generation of examples is not timed either. The suite's own timeout ends what hangs.
settings.register_profile("vxtui", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("vxtui")
