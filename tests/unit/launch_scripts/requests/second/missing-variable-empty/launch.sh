#!/bin/bash
gcloud ai custom-jobs create --region=us-central1 --display-name=e$SUFFIX --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x $EXTRA
