#!/usr/bin/env bash
set -o errexit
REGION="us-central1"
IMAGE="us-docker.pkg.dev/nmt-research/images/nmt:horovod"
RS_IMAGE="us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
gcloud ai custom-jobs create \
  --region="${REGION}" --display-name='nmt reduction' \
  --worker-pool-spec=machine-type=a2-highgpu-4g,replica-count=1,accelerator-type=NVIDIA_TESLA_A100,accelerator-count=4,container-image-uri="${IMAGE}" \
  --worker-pool-spec=machine-type=a2-highgpu-4g,replica-count=3,accelerator-type=NVIDIA_TESLA_A100,accelerator-count=4,container-image-uri="${IMAGE}" \
  --worker-pool-spec=machine-type=n1-highcpu-16,replica-count=6,container-image-uri="${RS_IMAGE}"
