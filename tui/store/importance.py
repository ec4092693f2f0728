"""The importance of each parameter of a study, by optuna's PED-ANOVA, in a separate process.

Importing optuna takes half a second and would delay keys. As a program, this module reads the trials as JSON
from its standard input and prints the shares.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tui.domain.core.task import Task
from tui.domain.tuning.study import Study, counts, numbers_of, value_of
from tui.helper_program import run_helper

FEWEST = 4
"""Minimum number of trials with a result for which shares can be computed."""
SECONDS = 60.0


class NotEnough(Exception):
    """The study has too few results, or all trials have the same parameters."""


async def importance(study: Study, tasks: Sequence[Task]) -> dict[str, float]:
    """Return the share of each parameter that every trial has, largest first; the shares add up to 1.

    Raises:
        NotEnough: too few trials have ended.
        OSError: the program can't be started, or fails.
        TimeoutError: the computation exceeds `SECONDS`.
    """
    request = _request(study, tasks)
    words = [sys.executable, "-m", __name__]
    done = await run_helper(words, seconds=SECONDS, stdin=json.dumps(request).encode())
    if done.code:
        problem = done.errors.decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"the importance of the parameters could not be computed: {problem}")
    shares: dict[str, float] = json.loads(done.output)
    return shares


def _request(study: Study, tasks: Sequence[Task]) -> dict[str, Any]:
    ended = [task for task in tasks if counts(task) and value_of(task, study) is not None]
    if len(ended) < FEWEST:
        raise NotEnough(f"At least {FEWEST} trials must have a result; {len(ended)} have a result.")
    columns = {}
    for parameter in study.parameters:
        numbers = numbers_of(ended, parameter)
        if None not in numbers and len(set(numbers)) > 1:
            columns[parameter.id] = {
                "values": numbers,
                "choices": len(parameter.values) if parameter.kind == "categorical" else 0,
                "log": parameter.log and min(n for n in numbers if n is not None) > 0,
            }
    if not columns:
        raise NotEnough("No parameter differs between the trials that have ended.")
    goal = study.goal
    return {
        "maximize": goal is not None and goal.maximize,
        "results": [value_of(task, study) for task in ended],
        "parameters": columns,
    }


def compute(request: Mapping[str, Any]) -> dict[str, float]:
    """Compute the shares for a request of `importance`."""
    import optuna  # noqa: PLC0415

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    kinds = optuna.distributions
    spaces: dict[str, Any] = {}
    columns = request["parameters"]
    for name, column in columns.items():
        if column["choices"]:
            spaces[name] = kinds.CategoricalDistribution(range(column["choices"]))
        else:
            low, high = min(column["values"]), max(column["values"])
            spaces[name] = kinds.FloatDistribution(low, high, log=column["log"])
    study = optuna.create_study(direction="maximize" if request["maximize"] else "minimize")
    for at, result in enumerate(request["results"]):
        values = {name: column["values"][at] for name, column in columns.items()}
        chosen = {name: int(v) if columns[name]["choices"] else v for name, v in values.items()}
        study.add_trial(optuna.trial.create_trial(params=chosen, distributions=spaces, value=result))
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    return dict(optuna.importance.get_param_importances(study, evaluator=evaluator))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(compute(json.load(sys.stdin))))
