"""Logs of one replica as plain text, and jobs whose only trace is the service's message."""

# fmt: off
from __future__ import annotations

from typing import Any

from tests.corpus.failures.case import Case, Root
from tests.corpus.failures.cases.devices import OOM, raised
from tests.corpus.failures.cases.mix import mixed

PLAIN: dict[str, Any] = {"replicas": 1, "form": "plain", "skew": {}, "late": 0.0, "joined": False, "service": False}
TRACE = 'The replica {} exited with a non-zero status of 1. Termination reason: Error. \nTraceback (most recent call last):\n  [...]\n  File "/root/.local/lib/python3.11/site-packages/trainer/{}", line 61, in build\n    {}\n{}\n\nTo find out more about why your job exited please check the logs: https://console.cloud.google.com/logs/viewer?project=482910&resource=ml_job%2Fjob_id%2F71288'


def message_only(  # noqa: PLR0917 - rows of a table
    name: str, family: Any, cause: str, file: str, source: str, exception: str, **fixed: Any,
) -> Case:
    """A job that failed without a log: its account may not write one."""
    where = "workerpool0-0"
    fixed.setdefault("retry", ("no", "change"))
    case = mixed(name, family, cause, "", "incidents.deprecation", really=False, ranks=1, replicas=2, platform="vertex", form="jsonl", skew={}, late=0.0, service=False, error=TRACE.format(where, file, source, exception), root=Root((), (where,)), **fixed)
    case.command = "echo no log of this arrives; exit 1"
    case.drop = ("workerpool0-0", "workerpool1-0", "service")
    return case


def large(name: str, family: Any, cause: str, pattern: str, call: str, **fixed: Any) -> Case:
    """A run with thousands of entries."""
    settings = {"chatty": True, "print_every": 1, "steps": 130, "scale": 100.0, "step_seconds": 6.0, "collective": "gloo", "dialect": fixed.pop("dialect", "plain")}
    fixed.setdefault("form", "jsonl")
    return mixed(name, family, cause, pattern, call, at_step=110, ranks=1, settings=settings, grace=60.0, limit=120.0, **fixed)


def singles() -> list[Case]:
    return [
        mixed("plain_metric_key", "code", "eval/bleu", "KeyError: 'eval/bleu'", "modeling.metric_key", on="zero", ranks=1, **PLAIN),
        mixed("plain_disk_full", "disk", "", "No space left on device", "checkpointing.write_full", stage="save", on="zero", ranks=1, settings={"save_every": 5}, **PLAIN),
        mixed("plain_flag", "config-flag", "--learning_rate", "unrecognized arguments", "options.flags", stage="setup", on="zero", ranks=1, options={"argv": ["--data", "x", "--learning_rate", "1"]}, **PLAIN),
        mixed("plain_eight_ranks", "data", "", "UnicodeDecodeError", "data.read_text", on=[5], ranks=8, settings={"launcher": "torchrun", "collective": "gloo", "dialect": "tqdm"}, **PLAIN),
        mixed("plain_four_ranks_deepspeed", "package", "mamba_ssm", "No module named 'mamba_ssm'", "packages.load", on=[2], ranks=4, stage="build", options={"name": "mamba_ssm"}, settings={"launcher": "deepspeed", "collective": "nccl"}, **PLAIN),
        raised("plain_cuda_oom", "memory-gpu", "", "CUDA out of memory. Tried", OOM.format("2.50", 0), kind="torch.OutOfMemoryError", on="zero", ranks=1, settings={"dialect": "tqdm"}, **PLAIN),
        mixed("plain_unknown", "unknown", "", "", "system.leave_silently", on="zero", ranks=1, tells=False, root=None, retry=("no", "yes", "change", "node", ""), **PLAIN),
        mixed("plain_ok", "none", "", "", "incidents.library_traceback", on="zero", ranks=1, state="SUCCEEDED", error="", root=None, retry=("no", ""), **PLAIN),
        message_only("message_module", "package", "missing_lib", "model.py", "from missing_lib.nn import Conv", "ModuleNotFoundError: No module named 'missing_lib'"),
        message_only("message_file_not_found", ("data", "storage-gcs"), "/gcs/acme-data/train.csv", "data.py", "frame = read(path)", "FileNotFoundError: [Errno 2] No such file or directory: '/gcs/acme-data/train.csv'"),
        message_only("message_image_dataset", ("data", "code", "config-flag"), "", "data.py", "raise FileNotFoundError(f\"image dataset {root} does not exist\")", "FileNotFoundError: image dataset /mnt/imagenet does not exist"),
        message_only("message_type_error", "code", "lr_scheduler", "train.py", "engine.run(lr_scheduler=scheduler)", "TypeError: Engine.run() got an unexpected keyword argument 'lr_scheduler'"),
        large("large_48_replicas", "data", "", "EOFError: Compressed file ended", "data.read_gzip", on=[33], replicas=48),
        large("large_64_replicas_json", "code", "", "NoneType", "modeling.attribute_of_none", on=[50], replicas=64, dialect="json"),
        large("large_32_megatron", "checkpoint", "", "UnpicklingError", "checkpointing.read_pickle", on=[7], replicas=32, dialect="megatron"),
        large("large_40_unknown", "unknown", "", "", "system.leave_silently", on=[20], replicas=40, tells=False, root=None, retry=("no", "yes", "change", "node", "")),
    ]
