#!/bin/bash
python3 - <<'PY' > made.yaml
print("workerPoolSpecs:\n- machineSpec: {machineType: n1-standard-4}\n  replicaCount: 1\n  containerSpec: {imageUri: gcr.io/p/py}")
PY
gcloud ai custom-jobs create --region=us-central1 --display-name=py --config=made.yaml
