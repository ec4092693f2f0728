#!/bin/bash
USE_GPU=1
GPU=$( [ "$USE_GPU" = 1 ] && echo ",accelerator-type=NVIDIA_L4,accelerator-count=1" )
gcloud ai custom-jobs create --region=us-central1 --display-name=gpu --worker-pool-spec=machine-type=g2-standard-8,replica-count=1${GPU},container-image-uri=gcr.io/p/x
