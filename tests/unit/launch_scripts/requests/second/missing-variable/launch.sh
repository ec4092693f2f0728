#!/bin/bash
set -u
gcloud ai custom-jobs create --region=us-central1 --display-name=u --worker-pool-spec=machine-type=$MACHINE_TYPE,replica-count=1,container-image-uri=gcr.io/p/x
