#!/bin/bash
MODEL="ResNet_152_v2"
short=${MODEL:0:10}
name=${short,,}
gcloud ai custom-jobs create --region=us-central1 --display-name="${name//_/-}" --labels=model=${MODEL,,} \
  --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x
