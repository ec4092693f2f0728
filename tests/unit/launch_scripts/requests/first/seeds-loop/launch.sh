#!/bin/bash
for SEED in 11 12 13; do
    gcloud ai custom-jobs create \
        --region=us-east1 \
        --display-name="cnn-seed-${SEED}" \
        --config=job.yaml \
        --args="fit,--seed,${SEED}"
done
