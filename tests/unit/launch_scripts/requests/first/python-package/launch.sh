#!/bin/sh
PACKAGE=gs://retail-staging/trainer-0.3.tar.gz
gcloud ai custom-jobs create --region=us-central1 \
  --display-name=retail-forecast \
  --python-package-uris=$PACKAGE,gs://retail-staging/common-1.0.tar.gz \
  --worker-pool-spec=machine-type=n1-standard-4,replica-count=1,executor-image-uri=us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-12.py310:latest,python-module=trainer.task \
  --args=--horizon=28,--items=500
