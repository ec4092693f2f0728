"""Jobs of the emulator, with its messages and faults."""

# fmt: off
from __future__ import annotations

from typing import Any

from tests.corpus.failures.case import Case, Root, hook
from tests.corpus.failures.cases.mix import mixed
from tests.corpus.failures.cases.outcomes import quiet

BASE: dict[str, Any] = {"platform": "vertex", "ranks": 1, "skew": {}, "late": 0.0, "joined": False, "severity": True, "entry": "train.py"}
SLOW = {"steps": 400, "scale": 1.0, "step_seconds": 0.1, "print_every": 5, "collective_timeout": 30.0, "join_timeout": 60.0}


def emulator_jobs() -> list[Case]:
    await_step = "step 5/400"
    fail = {"steps": 60, "scale": 1.0, "step_seconds": 0.1, "collective_timeout": 30.0, "join_timeout": 60.0}
    slow = SLOW | {"dialect": "plain", "collective": "gloo"}
    return [
        mixed("em_metric_key", "code", "eval/bleu", "KeyError: 'eval/bleu'", "modeling.metric_key", on=[2], at_step=12, replicas=4, settings=fail | {"collective": "gloo"}, emulator={"run": True}, **BASE),
        mixed("em_missing_module", "package", "mamba_ssm", "No module named 'mamba_ssm'", "packages.load", on="zero", stage="setup", options={"name": "mamba_ssm"}, replicas=3, settings=fail, emulator={"run": True}, **BASE),
        mixed("em_flag", "config-flag", "--optimizer", "invalid choice: 'adam'", "options.flags", on="all", stage="setup", options={"argv": ["--data", "x", "--optimizer", "adam"]}, replicas=2, settings=fail, emulator={"run": True}, **BASE),
        mixed("em_segfault", ("code", "hardware-gpu"), "", "", "system.segfault_quiet", on=[1], at_step=8, replicas=3, settings=fail | {"collective": "gloo"}, emulator={"run": True}, root=Root((), ("workerpool1-0",)), retry=("yes", "no", "change", "node"), **BASE),
        quiet("em_oom", "memory-host", replicas=4, settings=slow, emulator={"acts": [[await_step, ["emulator", "fault", "oom", "JOB", "--replica", "workerpool1-1"]]]}, root=Root((), ("workerpool1-1",)), **BASE),
        quiet("em_oom_pool", "memory-host", replicas=3, settings=slow, emulator={"acts": [[await_step, ["emulator", "fault", "oom", "JOB"]]]}, root=Root((), ("",)), **BASE),
        quiet("em_cancelled", "user-cancel", replicas=3, settings=slow, state="CANCELLED", emulator={"acts": [[await_step, ["cancel", "JOB", "--yes"]]]}, root=None, retry="no", incidents=("oom_recovered", "library_traceback"), **BASE),
        quiet("em_timeout", "timeout", replicas=2, settings=slow, emulator={"scheduling": {"timeout": "12s"}}, root=Root(("imeout|exceeded|ran longer",), ("service",)), **BASE),
        quiet("em_stockout", "quota-capacity", replicas=2, settings=slow, emulator={"before": [["scarcity", "--stockout"]]}, root=Root(("insufficient|STOCKOUT",), ("service",)), **BASE),
        quiet("em_image", "image", replicas=2, settings=slow, emulator={"before": [["scarcity", "--image"]]}, root=Root(("image|pull",), ("service",)), **BASE),
        quiet("em_start_error", "image", cause="trainer.task", replicas=2, settings=slow, emulator={"command": ["trainer.task", "--epochs", "3"]}, root=Root(("trainer.task",), ("workerpool0-0", "service")), **BASE),
        quiet("em_spot_preempted_done", "none", replicas=3, state="SUCCEEDED", settings=slow | {"steps": 60}, emulator={"scheduling": {"strategy": "SPOT"}, "acts": [["step 5/60", ["emulator", "fault", "preempt", "JOB", "--replica", "workerpool1-0"]]]}, root=None, retry=("no", ""), hooks_more=[hook("system.notice_preemption", None, "setup", seconds=1.0)], **BASE),
    ]
