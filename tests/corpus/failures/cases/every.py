"""All cases."""

from __future__ import annotations

from tests.corpus.failures.case import Case
from tests.corpus.failures.cases.devices import devices
from tests.corpus.failures.cases.documented import documented
from tests.corpus.failures.cases.emulator_jobs import emulator_jobs
from tests.corpus.failures.cases.machines import machines
from tests.corpus.failures.cases.outcomes import outcomes
from tests.corpus.failures.cases.programs import programs
from tests.corpus.failures.cases.services import services
from tests.corpus.failures.cases.singles import singles
from tests.corpus.failures.cases.torch_runs import torch_runs


def all_cases() -> list[Case]:
    return [
        *programs(),
        *machines(),
        *services(),
        *devices(),
        *documented(),
        *emulator_jobs(),
        *outcomes(),
        *singles(),
        *torch_runs(),
    ]
