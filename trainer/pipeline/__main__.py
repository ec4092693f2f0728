"""`python -m trainer.pipeline STEP …`: one step of a pipeline.

A flag that ends with -out names the file of an output.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from trainer import exit_codes
from trainer.pipeline import canary, release, stages, study
from trainer.pipeline.files import read_json, write, write_artifact
from trainer.pipeline.vertex import Vertex
from trainer.structured_log import emit

FAILED = 1
Given = argparse.Namespace


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser("python -m trainer.pipeline", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    for name, (run, flags) in STEPS.items():
        step = steps.add_parser(name, help=(run.__doc__ or "").strip())
        for flag, kind in flags.items():
            step.add_argument(
                f"--{flag}", type=kind, default="" if kind is str else None, required=kind is not str
            )
    given = parser.parse_args(argv)
    try:
        return STEPS[given.step][0](given)
    except (study.NoTrial, OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | TypeError) else str(error)
        emit("error", f"the step {given.step} failed: {reason}", severity="ERROR")
        return FAILED
    except Exception as error:
        # The client's own errors say what was asked and why not.
        if not type(error).__module__.startswith("google."):
            raise
        emit("error", f"the step {given.step} failed: {error}", severity="ERROR")
        return FAILED


def plan_sweep(given: Given) -> int:
    """The worker pools of the sweep's trials."""
    write(given.sweep_out, stages.sweep_pools(given.pools, steps=given.steps, samples=given.samples))
    return exit_codes.DONE


def plan_stages(given: Given) -> int:
    """The best trial of the sweep, and the worker pools of the stages with its flags."""
    best, loss = study.best_of(given.tuning_job)
    emit("phase", f"the best trial has the loss {loss:g}: {' '.join(best)}", phase="sweep")
    length = {"steps": given.steps, "samples": given.samples}
    folders = stages.stage_folders(given.folder, given.pools, best, **length)
    for name, pools in stages.stage_pools(given.pools, folders, best, **length).items():
        write(getattr(given, f"{name}_out"), pools)
    result = f"{folders['integration'].rpartition('/')[0]}/evaluation.json"
    write(
        given.evaluation_out,
        stages.evaluation_pools(given.pools, folders["integration"], result, samples=given.samples),
    )
    write(given.result_out, result)
    write(given.baseline_out, folders["quality"])
    write(given.candidate_out, folders["integration"])
    write(given.best_out, " ".join(best))
    write(given.loss_out, loss)
    return exit_codes.DONE


def read_evaluation(given: Given) -> int:
    """The figures of an evaluation, as output parameters."""
    found: dict[str, Any] = read_json(given.result)
    emit("phase", f"{given.result}: {json.dumps(found)}", phase="evaluation")
    write(given.likelihood_out, float(found["likelihood"]))
    write(given.accuracy_out, float(found.get("accuracy", 0.0)))
    return exit_codes.DONE


def prepare_endpoint(given: Given) -> int:
    """The endpoint, with a stable model on it."""
    vertex = Vertex(given.project, given.location)
    baseline = release.Baseline(given.model_name, given.baseline, given.image)
    endpoint, stable = release.prepared_endpoint(vertex, given.endpoint_name, baseline, _machine(given))
    write(given.endpoint_out, endpoint)
    address = f"https://{given.location}-aiplatform.googleapis.com/v1/{stable}"
    write_artifact(given.executor_input, "stable", address, {"resourceName": stable})
    return exit_codes.DONE


def deploy_canary(given: Given) -> int:
    """The new version, with a small share of the traffic."""
    vertex = _vertex_of(given.endpoint)
    deployed = release.deploy_canary(vertex, given.endpoint, given.model, given.percent, _machine(given))
    write(given.deployed_out, deployed)
    return exit_codes.DONE


def check_canary(given: Given) -> int:
    """Predictions through the endpoint; what is wrong with them is an output, and no failure."""
    vertex = _vertex_of(given.endpoint)
    found = canary.check(vertex, given.endpoint, given.deployed, given.requests, given.questions)
    problem = found.problem(given.max_error_rate, given.max_latency)
    text = problem or "the canary is good"
    figures = f"{found.requests} predictions, {found.errors} errors, {found.canary} by the canary"
    severity = "WARNING" if problem else "INFO"
    emit("phase", f"{text}: {figures}, 95% within {found.latency:.3f} s", severity=severity, phase="canary")
    write(given.passed_out, "false" if problem else "true")
    write(given.error_rate_out, found.errors / max(1, found.requests))
    write(given.latency_out, found.latency if found.canary else 0.0)
    write(given.answers_out, found.canary)
    return exit_codes.DONE


def promote(given: Given) -> int:
    """All of the traffic for the canary."""
    release.promote(_vertex_of(given.endpoint), given.endpoint, given.deployed)
    return exit_codes.DONE


def roll_back(given: Given) -> int:
    """The canary off the endpoint; the step fails, since the release has failed."""
    release.roll_back(_vertex_of(given.endpoint), given.endpoint, given.deployed)
    emit("error", "the canary was not good: see the log of its check", severity="ERROR")
    return FAILED


def _vertex_of(resource: str) -> Vertex:
    _, project, _, location, *_ = resource.split("/")
    return Vertex(project, location)


def _machine(given: Given) -> release.ServingMachine:
    return release.ServingMachine(given.machine_type, given.accelerator_type, given.accelerator_count)


_LENGTH = {"steps": int, "samples": int}
_MACHINE = {"machine-type": str, "accelerator-type": str, "accelerator-count": int}
_CANARY = {"endpoint": str, "deployed": str}
STEPS: dict[str, tuple[Callable[[Given], int], dict[str, Any]]] = {
    "plan-sweep": (plan_sweep, {"pools": json.loads, **_LENGTH, "sweep-out": str}),
    "plan-stages": (
        plan_stages,
        {
            "tuning-job": str, "pools": json.loads, **_LENGTH, "folder": str,
            **{f"{name}-out": str for name, _ in stages.STAGES},
            **{f"{name}-out": str for name in ("evaluation", "result", "baseline", "candidate")},
            "best-out": str, "loss-out": str,
        },
    ),
    "read-evaluation": (read_evaluation, {"result": str, "likelihood-out": str, "accuracy-out": str}),
    "prepare-endpoint": (
        prepare_endpoint,
        {
            "project": str, "location": str, "endpoint-name": str, "model-name": str, "baseline": str,
            "image": str, **_MACHINE, "endpoint-out": str, "executor-input": str,
        },
    ),
    "deploy-canary": (
        deploy_canary, {"endpoint": str, "model": str, "percent": int, **_MACHINE, "deployed-out": str}
    ),
    "check-canary": (
        check_canary,
        {
            **_CANARY, "requests": int, "max-error-rate": float, "max-latency": float, "questions": str,
            **{f"{name}-out": str for name in ("passed", "error-rate", "latency", "answers")},
        },
    ),
    "promote": (promote, _CANARY),
    "roll-back": (roll_back, _CANARY),
}  # fmt: skip
"""Each step, and its flags with what reads them."""


if __name__ == "__main__":
    sys.exit(main())
