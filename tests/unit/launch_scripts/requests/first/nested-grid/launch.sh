#!/bin/bash
IMAGE=gcr.io/grid/search
for lr in 1e-3 1e-4; do
  for bs in 32 64; do
    name="grid_lr${lr//[-.]/}_bs${bs}"
    gcloud ai custom-jobs create --region=us-central1 --display-name="$name" \
      --worker-pool-spec="machine-type=n1-standard-4,replica-count=1,container-image-uri=${IMAGE}" \
      --args="--lr=${lr}" --args="--bs=${bs}" --async
  done
done
