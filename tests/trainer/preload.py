"""Imports of the server from which training processes are forked."""

import gc
import os

os.environ["DS_ACCELERATOR"] = "cpu"
os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch._dynamo
import torch.distributed.fsdp
import transformers.models.llama.modeling_llama  # noqa: F401

import trainer.models.language
import trainer.task
import trainer.train  # noqa: F401
from tests.trainer import toys
from trainer import registry
from trainer.strategy.deepspeed.package import load_deepspeed

load_deepspeed(torch.device("cpu"))

registry.MODELS["faulty"] = registry.ModelEntry("tests.trainer.faulty_workload:faulty")
registry.MODELS["uneven"] = registry.ModelEntry("tests.trainer.uneven_workload:uneven", text=False)
toys.register()

# What is imported is never garbage, and every process would look through it.
gc.collect()
gc.freeze()
