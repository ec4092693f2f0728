#!/bin/bash
BUCKET=gs://genomics-out
RUN=run-042
CFG=/tmp/${RUN}.yaml

cat > "$CFG" <<EOF
workerPoolSpecs:
  - machineSpec:
      machineType: a2-highgpu-4g
      acceleratorType: NVIDIA_TESLA_A100
      acceleratorCount: 4
    replicaCount: 1
    diskSpec:
      bootDiskType: pd-ssd
      bootDiskSizeGb: 500
    containerSpec:
      imageUri: us-docker.pkg.dev/genomics/ml/fold:1.4
      command: ["torchrun", "--nproc_per_node=4", "train.py"]
      args:
        - --output=${BUCKET}/${RUN}
      env:
        - name: NCCL_DEBUG
          value: INFO
        - name: RUN
          value: "${RUN}"
scheduling:
  timeout: 86400s
  restartJobOnWorkerRestart: true
EOF

gcloud ai custom-jobs create --region=us-central1 --display-name="fold-${RUN}" --config="$CFG"
