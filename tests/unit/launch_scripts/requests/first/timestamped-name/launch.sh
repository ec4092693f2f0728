#!/bin/bash
# Trains the ranking model on one T4.
set -e

PROJECT_ID=acme-ml-prod
REGION=us-central1
TIMESTAMP=$(date +%Y%m%d_%H%M%S)
JOB_NAME="ranker_${TIMESTAMP}"
IMAGE_URI="us-central1-docker.pkg.dev/${PROJECT_ID}/training/ranker:latest"

gcloud ai custom-jobs create \
  --project=$PROJECT_ID \
  --region=$REGION \
  --display-name=$JOB_NAME \
  --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,accelerator-type=NVIDIA_TESLA_T4,accelerator-count=1,container-image-uri=$IMAGE_URI
