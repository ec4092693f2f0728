"""`python -m trainer.launch [options] script.py …` or `… -m module …`: see `launch.script`."""

from __future__ import annotations

import os
import sys

from trainer import exit_codes
from trainer.errors import UsageError
from trainer.launch import script
from trainer.launch.start import start
from trainer.placement.sources import find_topology
from trainer.placement.topology import TopologyError
from trainer.structured_log import emit


def main() -> int:
    """Run the script; return an exit code of `trainer.exit_codes`, or the script's own."""
    try:
        program = script.parse(sys.argv[1:])
        topology = find_topology(program.environment(os.environ))
        if topology.per_process:
            by = "mpirun starts a process for each slot" if topology.variables else "LOCAL_RANK is set"
            text = f"{by}: trainer.launch replaces torchrun; start it once on each node"
            raise UsageError(text)
        return start(program, topology)
    except (UsageError, TopologyError) as error:
        emit("error", str(error), severity="ERROR")
        return exit_codes.USAGE


if __name__ == "__main__":
    sys.exit(main())
