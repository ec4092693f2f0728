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
    """Run a step; return the exit code."""
    parser = argparse.ArgumentParser("python -m trainer.pipeline", description=__doc__)
    steps = parser.add_subparsers(dest="step", required=True)
    for name, (run, flags) in STEPS.items():
        step = steps.add_parser(name, help=(run.__doc__ or "").strip())
        for flag, kind in flags.items():
            step.add_argument(
                f"--{flag}", type=kind, default="" if kind is str else None, required=kind is not str
            )
    args = parser.parse_args(argv)
    try:
        return STEPS[args.step][0](args)
    except (study.NoTrial, OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}" if isinstance(error, KeyError | TypeError) else str(error)
        emit("error", f"the step {args.step} failed: {reason}", severity="ERROR")
        return FAILED
    except Exception as error:
        # The client's own errors name the request and the reason.
        if not type(error).__module__.startswith("google."):
            raise
        emit("error", f"the step {args.step} failed: {error}", severity="ERROR")
        return FAILED


def plan_sweep(args: Given) -> int:
    """Write the worker pools of the sweep's trials."""
    write(args.sweep_out, stages.sweep_pools(args.pools, steps=args.steps, samples=args.samples))
    return exit_codes.DONE


def plan_stages(args: Given) -> int:
    """Write the best trial of the sweep, and the worker pools of the stages with its flags."""
    best, loss = study.best_of(args.tuning_job)
    emit("phase", f"the best trial has the loss {loss:g}: {' '.join(best)}", phase="sweep")
    length = {"steps": args.steps, "samples": args.samples}
    folders = stages.stage_folders(args.folder, args.pools, best, **length)
    for name, pools in stages.stage_pools(args.pools, folders, best, **length).items():
        write(getattr(args, f"{name}_out"), pools)
    result = f"{folders['integration'].rpartition('/')[0]}/evaluation.json"
    write(
        args.evaluation_out,
        stages.evaluation_pools(args.pools, folders["integration"], result, samples=args.samples),
    )
    write(args.result_out, result)
    write(args.baseline_out, folders["quality"])
    write(args.candidate_out, folders["integration"])
    write(args.best_out, " ".join(best))
    write(args.loss_out, loss)
    return exit_codes.DONE


def read_evaluation(args: Given) -> int:
    """Write the metrics of an evaluation as output parameters."""
    metrics: dict[str, Any] = read_json(args.result)
    emit("phase", f"{args.result}: {json.dumps(metrics)}", phase="evaluation")
    write(args.likelihood_out, float(metrics["likelihood"]))
    write(args.accuracy_out, float(metrics.get("accuracy", 0.0)))
    return exit_codes.DONE


def prepare_endpoint(args: Given) -> int:
    """Find the endpoint, or create it with a stable model."""
    vertex = Vertex(args.project, args.location)
    baseline = release.Baseline(args.model_name, args.baseline, args.image)
    endpoint, stable = release.prepared_endpoint(vertex, args.endpoint_name, baseline, _machine(args))
    write(args.endpoint_out, endpoint)
    address = f"https://{args.location}-aiplatform.googleapis.com/v1/{stable}"
    write_artifact(args.executor_input, "stable", address, {"resourceName": stable})
    return exit_codes.DONE


def deploy_canary(args: Given) -> int:
    """Deploy the new version with a small share of the traffic."""
    vertex = _vertex_of(args.endpoint)
    deployed = release.deploy_canary(vertex, args.endpoint, args.model, args.percent, _machine(args))
    write(args.deployed_out, deployed)
    return exit_codes.DONE


def check_canary(args: Given) -> int:
    """Check predictions through the endpoint; problems are an output, not a failure of the step."""
    vertex = _vertex_of(args.endpoint)
    result = canary.check(vertex, args.endpoint, args.deployed, args.requests, args.questions)
    problem = result.problem(args.max_error_rate, args.max_latency)
    text = problem or "the canary passed its check"
    figures = f"{result.requests} predictions, {result.errors} errors, {result.canary} by the canary"
    severity = "WARNING" if problem else "INFO"
    emit("phase", f"{text}: {figures}, 95% within {result.latency:.3f} s", severity=severity, phase="canary")
    write(args.passed_out, "false" if problem else "true")
    write(args.error_rate_out, result.errors / max(1, result.requests))
    write(args.latency_out, result.latency if result.canary else 0.0)
    write(args.answers_out, result.canary)
    return exit_codes.DONE


def promote(args: Given) -> int:
    """Route all traffic to the canary."""
    release.promote(_vertex_of(args.endpoint), args.endpoint, args.deployed)
    return exit_codes.DONE


def roll_back(args: Given) -> int:
    """Remove the canary from the endpoint and fail the step, because the release failed."""
    release.roll_back(_vertex_of(args.endpoint), args.endpoint, args.deployed)
    emit("error", "the canary failed its check; see the log of that step", severity="ERROR")
    return FAILED


def _vertex_of(resource: str) -> Vertex:
    _, project, _, location, *_ = resource.split("/")
    return Vertex(project, location)


def _machine(args: Given) -> release.ServingMachine:
    return release.ServingMachine(args.machine_type, args.accelerator_type, args.accelerator_count)


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
"""The steps, each with its flags and their types."""


if __name__ == "__main__":
    sys.exit(main())
