"""`--model my.module:build`: a user's own model in the training loop, from a function of type `Build`."""

from __future__ import annotations

import importlib
import re
import site
import sysconfig
import traceback
from ast import literal_eval
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from trainer.config import Config, names_in
from trainer.errors import DataError, OwnCodeError, PlaceUnavailableError, UsageError
from trainer.models.workload import Workload
from trainer.supervision.failure import noticed_a_lost_peer
from trainer.weights.source import on_meta

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_LIBRARIES = (
    *site.getsitepackages(),
    sysconfig.get_paths()["stdlib"],
    str(Path(__file__).resolve().parents[1]),
)
"""Folders of installed libraries, whose code does not belong to the user."""


class Build(Protocol):
    """The function that `--model my.module:build` names."""

    def __call__(self, config: Config, **options: Any) -> Workload:
        """Return the model and its data. Every rank calls the function after setting the same seed.

        `config` has all flags: a custom dataset may read `config.data.data`, `config.model.context` and
        others. `options` are the values of `--model-args`. Any error here ends the run with exit code 2.
        """


def build_own(config: Config) -> Workload:
    """Build the workload with the user's function. Raises UsageError if the function does not exist, fails,
    or returns something else."""
    target = config.model.model
    if not _TARGET.fullmatch(target):
        raise UsageError(f"--model {target} must be module:function, e.g. my.module:build")
    build, options = _function(target), _options(config.model.model_args)
    try:
        workload = build(config, **options)
        problem = _problem(workload)
    except (UsageError, DataError, PlaceUnavailableError):
        raise
    except Exception as error:
        if noticed_a_lost_peer(error):
            raise
        raise _failed(target, error) from error
    if problem:
        raise OwnCodeError(f"--model {target} {problem} ({_place(build)})")
    _check_first_loss(workload.model, target)
    return workload


def _function(target: str) -> Build:
    module, _, name = target.partition(":")
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing == module or module.startswith(f"{missing}."):
            raise UsageError(
                f"--model {target}: no module {missing} in {Path.cwd()} or on the PYTHONPATH"
            ) from error
        raise _failed(target, error) from error
    except Exception as error:
        raise _failed(target, error) from error
    build: Build | None = getattr(imported, name, None)
    if not callable(build):
        problem = "is not a function" if hasattr(imported, name) else "does not exist"
        raise UsageError(f"--model {target}: {name} {problem} in {imported.__file__ or module}")
    return build


def _options(text: str) -> dict[str, Any]:
    """Parse `width=64,name=relu` as keyword arguments: numbers, True, False and None as in Python, any other
    value as a string."""
    options = {}
    for item in names_in(text):
        name, equals, value = item.partition("=")
        if not (equals and name.isidentifier()):
            raise UsageError(f"--model-args {text}: {item} must be NAME=VALUE")
        try:
            options[name] = literal_eval(value)
        except (ValueError, SyntaxError):
            options[name] = value
    return options


def _problem(workload: object) -> str:
    """Return the problem with the returned value, as the end of a sentence, or "" for a valid value."""
    if not isinstance(workload, Workload):
        return f"returned a {type(workload).__name__}, not a trainer.models.workload.Workload"
    if not isinstance(workload.model, nn.Module):
        return f"returned a model that is a {type(workload.model).__name__}, not a torch.nn.Module"
    if not any(weight.requires_grad for weight in workload.model.parameters()):
        return "returned a model without a trainable weight"
    if on_meta(workload.model) and workload.weights is None:
        return "returned a model on the meta device without a source of weights"
    inside = set(workload.model.modules())
    if any(block not in inside for block in workload.blocks):
        return "returned blocks that are not modules of the model"
    for name, data in (("train", workload.train), ("evaluation", workload.evaluation)):
        if data is not None and not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
            return f"returned {name} data that is a {type(data).__name__}, without __len__ or __getitem__"
        sample = data[0] if data is not None and len(data) else ()
        if not isinstance(sample, tuple) or not all(isinstance(part, torch.Tensor) for part in sample):
            return f"returned {name} data whose samples are not tuples of tensors"
    return ""


def _check_first_loss(model: nn.Module, target: str) -> None:
    """Check in the first forward pass that the model returns a loss."""

    def check(module: nn.Module, _: object, output: object) -> None:
        hook.remove()
        if isinstance(output, torch.Tensor) and output.dim() == 0 and output.is_floating_point():
            return
        returned = f"a {type(output).__name__}"
        if isinstance(output, torch.Tensor):
            returned = f"a tensor of {output.dtype} and shape {list(output.shape)}"
        where = _place(type(module).forward)
        raise OwnCodeError(
            f"--model {target}: the forward pass returns {returned}, not a scalar loss ({where})"
        )

    hook = model.register_forward_hook(check)


def _failed(target: str, error: Exception) -> OwnCodeError:
    text = str(error).strip().partition("\n")[0] or "no reason was given"
    if isinstance(error, SyntaxError) and error.filename:
        text = error.msg
        where = f"{error.filename}, line {error.lineno}"
    else:
        where = _last_line(error)
    return OwnCodeError(f"--model {target}: {type(error).__name__}: {text}{f' ({where})' if where else ''}")


def _last_line(error: Exception) -> str:
    """Return the file and line of the user's code that raised the error, directly or through a library."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(("<", *_LIBRARIES))]
    return f"{own[-1].filename}, line {own[-1].lineno}" if own else ""


def _place(function: Any) -> str:
    code = getattr(function, "__code__", None)
    if code is None:
        return str(getattr(function, "__module__", "unknown"))
    return f"{code.co_filename}, line {code.co_firstlineno}"
