"""What several tests share with test_tuning."""

from __future__ import annotations

REPORT = """
import argparse, json, os, time
from hypertune import HyperTune
parser = argparse.ArgumentParser()
parser.add_argument("--x", type=float)
parser.add_argument("--act")
given = parser.parse_args()
hypertune = HyperTune()
report = lambda value, step=1: hypertune.report_hyperparameter_tuning_metric("score", value, step)
"""
