#!/bin/bash
for ((i=0; i<3; i++)); do
  seed=$((i * 100 + 7))
  gcloud ai custom-jobs create --region=us-central1 --display-name="seed-$seed" --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x --args=--seed=$seed
done
