#!/bin/bash
MODE=${MODE:-cloud}
if [[ "$MODE" == "local" ]]; then
  python -m trainer.task --epochs 1
elif [ "$MODE" = "cloud" ]; then
  MACHINE_TYPE=n1-standard-8
  gcloud ai custom-jobs create --region=us-central1 --display-name=demand-$MODE \
    --worker-pool-spec=machine-type=$MACHINE_TYPE,container-image-uri=gcr.io/demand/t:1
else
  echo "unknown mode"; exit 1
fi
