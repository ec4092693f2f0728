"""Start a node: its part in the job, PID 1, the supervisor, and the exit code of the container."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trainer import exit_codes
from trainer.config import Config, parse
from trainer.elastic.restarting import RestartingSupervisor
from trainer.elastic.supervisor import ElasticSupervisor
from trainer.errors import UsageError
from trainer.launch.container_init import run_as_init
from trainer.network.run_key import run_key
from trainer.placement.topology import Topology
from trainer.structured_log import emit
from trainer.supervision.program import Program
from trainer.supervision.supervisor import Supervisor

_GPU = "nvidia[0-9]*"


def start(program: Program, topology: Topology) -> int:
    """Run the program on this node, with the others; return the container's exit code."""
    for text in topology.warnings:
        emit("phase", text, severity="WARNING", phase="starting")
    if not topology.trains:
        text = f"this replica is a {topology.role} and does not take part in the training"
        emit("phase", text, phase="idle")
        return exit_codes.DONE
    # PID 1 only waits for a child, which continues here.
    code = run_as_init()
    if code is not None:
        return code
    elastic = program.launch.elastic
    if elastic > topology.nodes:
        raise UsageError(f"--elastic {elastic} needs more nodes than the job has ({topology.nodes})")
    if topology.nodes > 1:
        topology = replace(topology, key=run_key(topology))
    outcome = _supervisor(program, topology).run()
    code = exit_codes.for_platform(outcome, os.environ)
    if code != outcome:
        text = (
            f"exit code {code} for {outcome} ({exit_codes.NAMES[outcome]}), so that this platform restarts it"
        )
        emit("phase", text, phase="stopping", exit_code=code, outcome=outcome)
    return code


def _supervisor(program: Program, topology: Topology) -> Supervisor:
    if topology.nodes == 1:
        return Supervisor(program, topology)
    if program.launch.elastic:
        return ElasticSupervisor(program, topology)
    return RestartingSupervisor(program, topology) if topology.minimum else Supervisor(program, topology)


def elastic_flags(config: Config, flags: Sequence[str], topology: Topology) -> list[str]:
    """Return the `--elastic` flag for a job with a variable number of nodes, if its processes can stay."""
    if not topology.minimum or config.launch.elastic:
        return []
    added = [f"--elastic={topology.minimum}"]
    try:
        if config.parallel.device != "cpu" and any(Path("/dev").glob(_GPU)):
            raise UsageError("process groups on GPUs can't change")
        parse([*flags, *added])
    except UsageError as error:
        text = f"when the number of nodes changes, all processes save and restart: {error}"
        emit("phase", text, phase="starting")
        return []
    return added
