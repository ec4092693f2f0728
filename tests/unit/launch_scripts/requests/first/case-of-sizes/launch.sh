#!/usr/bin/env bash
SIZE="${1:-medium}"
case "$SIZE" in
  small)  MT=n1-standard-4;  GPU=NVIDIA_TESLA_T4;   N=1 ;;
  medium) MT=n1-standard-16; GPU=NVIDIA_TESLA_V100; N=2 ;;
  large)  MT=a2-highgpu-8g;  GPU=NVIDIA_TESLA_A100; N=8 ;;
  *) echo "usage: $0 small|medium|large"; exit 64 ;;
esac
gcloud ai custom-jobs create --region=us-central1 --display-name="diffusion-$SIZE" \
  --worker-pool-spec="machine-type=$MT,replica-count=1,accelerator-type=$GPU,accelerator-count=$N,container-image-uri=gcr.io/art/diffusion:5" \
  --args="--batch=$((N * 16))"
