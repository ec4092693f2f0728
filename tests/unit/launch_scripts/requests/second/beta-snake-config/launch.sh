#!/bin/bash
# Submit the distillation job
set -eux
gcloud beta ai custom-jobs create \
    --region=us-central1 \
    --project=distill-dev \
    --config=vertex_config.yaml \
    --display-name="distill-student-$(date +"%Y%m%d-%H%M")"
