#!/bin/bash
ENV=${ENV:-dev}
case "$ENV" in
  prod|production) MACHINE=a2-highgpu-8g; ACC="accelerator-type=NVIDIA_TESLA_A100,accelerator-count=8," ;;
  dev) MACHINE=n1-standard-4; ACC="" ;;
  *) echo "unknown $ENV"; exit 1 ;;
esac
gcloud ai custom-jobs create --region=us-central1 --display-name="t-$ENV" \
  --worker-pool-spec="machine-type=$MACHINE,${ACC}replica-count=1,container-image-uri=gcr.io/p/x"
