#!/bin/sh
NAME=${1:-fallback}
GPUS=${2-2}
if [ "$GPUS" -gt 0 ]; then
  ACC=",accelerator-type=NVIDIA_TESLA_T4,accelerator-count=$GPUS"
else
  ACC=
fi
gcloud ai custom-jobs create --region=us-central1 --display-name="$NAME" \
  --worker-pool-spec="machine-type=n1-standard-8,replica-count=1${ACC},container-image-uri=gcr.io/p/x"
