"""Loaded once by the server that training processes are forked from."""

import gc
import os

os.environ["DS_ACCELERATOR"] = "cpu"
os.environ["OMP_NUM_THREADS"] = "1"

import torch
import torch._dynamo
import torch.distributed.fsdp

import trainer.models.language
import trainer.train  # noqa: F401
from trainer import workload
from trainer.strategy.deepspeed import load_deepspeed

load_deepspeed(torch.device("cpu"))

workload.WORKLOADS["spoilt"] = "tests.trainer.spoilt:spoilt"

# What is loaded stays: every process would look through it for garbage.
gc.collect()
gc.freeze()
