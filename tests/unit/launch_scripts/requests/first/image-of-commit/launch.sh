#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly PROJECT="churn-lab"
readonly SHA=$(git rev-parse --short HEAD)
readonly IMAGE="eu.gcr.io/${PROJECT}/churn-trainer:${SHA}"

docker build -t "$IMAGE" . && docker push "$IMAGE"

gcloud ai custom-jobs create --region europe-west4 \
    --display-name "churn-${SHA}" \
    --worker-pool-spec "machine-type=n1-highmem-8,replica-count=1,container-image-uri=${IMAGE}" \
    --labels "commit=${SHA},team=growth" \
    --args="--epochs=25,--learning-rate=3e-4"
