"""Runs what is registered for a stage of the run."""

import importlib


def fire(stage, trainer):
    s = trainer.s
    for hook in s.hooks:
        if hook["stage"] != stage or (hook["ranks"] is not None and s.rank not in hook["ranks"]):
            continue
        if stage == "step" and hook["step"] != trainer.step:
            continue
        if stage == "save" and hook["step"] and hook["step"] > trainer.step:
            continue
        module, name = hook["call"].split(".")
        function = getattr(importlib.import_module(module), name)
        function(trainer, **hook["options"])
