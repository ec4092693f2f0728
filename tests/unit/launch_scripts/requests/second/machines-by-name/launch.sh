#!/bin/bash
declare -A MACHINES=([small]=n1-standard-4 [big]=n1-highmem-32)
SIZE=big
gcloud ai custom-jobs create --region=us-central1 --display-name=assoc --worker-pool-spec=machine-type=${MACHINES[$SIZE]},replica-count=1,container-image-uri=gcr.io/p/x
