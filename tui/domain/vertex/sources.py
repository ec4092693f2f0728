"""Where the documents say what the service, or gcloud before it, does not take."""

from __future__ import annotations

DOCS = "https://docs.cloud.google.com/gemini-enterprise-agent-platform"
REST = f"{DOCS}/reference/rest"
TRAINING = f"{DOCS}/machine-learning/training"

JOB = f"{REST}/v1/projects.locations.customJobs"
SPEC = f"{REST}/Shared.Types/CustomJobSpec"
COMPUTE = f"{TRAINING}/configure-compute"
DISTRIBUTED = f"{TRAINING}/distributed-training"
FLEX = f"{TRAINING}/schedule-jobs-dws"
TENSORBOARD = f"{DOCS}/machine-learning/experiments/tensorboard-training"
TUNING_JOB = f"{REST}/v1/projects.locations.hyperparameterTuningJobs"
STUDY = f"{REST}/Shared.Types/StudySpec"
TUNING = f"{TRAINING}/hyperparameter-tuning-overview"
JSON_MAPPING = "https://protobuf.dev/programming-guides/json/"
"""A reader refuses names and values that a message does not have."""
GCLOUD_JOB = "gcloud 578.0.0 custom_jobs/validation.py"
GCLOUD_READER = "gcloud 578.0.0 apitools/base/py/encoding_helper.py"
GCLOUD_REGION = "gcloud 578.0.0 ai/validation.py"
EMULATOR = "vxtui emulator"
"""What only the emulator on this machine does not take."""

UNDOCUMENTED = "No refusal of it is documented."
"""Ends the sentence of a warning about what is certainly wrong and may be taken all the same."""
