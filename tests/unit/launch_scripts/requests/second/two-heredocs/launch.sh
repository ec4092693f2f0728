#!/bin/bash
cat > a.yaml <<'A'
workerPoolSpecs:
- machineSpec: {machineType: n1-standard-4}
  replicaCount: 1
  containerSpec: {imageUri: gcr.io/p/a, args: ['$HOME']}
A
cat > b.yaml <<B
workerPoolSpecs:
- machineSpec: {machineType: n1-standard-4}
  replicaCount: 1
  containerSpec: {imageUri: gcr.io/p/b, args: ['$HOME']}
B
for f in a b; do gcloud ai custom-jobs create --region=us-central1 --display-name=job-$f --config=$f.yaml; done
