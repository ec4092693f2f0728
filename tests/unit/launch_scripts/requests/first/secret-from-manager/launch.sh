WANDB_KEY=$(gcloud secrets versions access latest --secret=wandb)
cat <<EOF > with_key.yaml
workerPoolSpecs:
- machineSpec:
    machineType: n1-standard-4
  replicaCount: 1
  containerSpec:
    imageUri: gcr.io/p/x
    env:
    - {name: WANDB_API_KEY, value: "${WANDB_KEY}"}
EOF
gcloud ai custom-jobs create --region=us-central1 --display-name=keyed --config=with_key.yaml
