#!/usr/bin/env bash
set -euo pipefail

if [ -f .env ]; then
  set -a
  source .env
  set +a
else
  echo "no .env" >&2
  exit 1
fi

: "${GCP_PROJECT:?set GCP_PROJECT}"
: "${GCP_REGION:?set GCP_REGION}"

MODEL="${1:-graphnet}"
NAME="${2:-${MODEL}-$(date +%Y%m%d-%H%M%S)}"
IMAGE="${GCP_REGION}-docker.pkg.dev/${GCP_PROJECT}/${AR_REPO}/trainer:${IMAGE_TAG:-latest}"

gcloud ai custom-jobs create \
  --project="${GCP_PROJECT}" --region="${GCP_REGION}" \
  --display-name="${NAME}" \
  --worker-pool-spec="machine-type=${VM},accelerator-type=${GPU},accelerator-count=${GPUS},replica-count=1,container-image-uri=${IMAGE}" \
  --args="--model=${MODEL},--out=gs://${BUCKET}/models/${MODEL}"
