REGIONS=(us-central1 europe-west1 asia-east1)
MODEL=resnet50
for r in "${REGIONS[@]}"; do
  # one copy a region
  gcloud ai custom-jobs create --region="$r" --display-name="${MODEL}-${r%%-*}" \
    --worker-pool-spec=machine-type=n1-standard-16,replica-count=1,container-image-uri=gcr.io/geo/${MODEL}:2 \
    --args="--data=gs://geo-${r}/train","--arch=${MODEL^^}"
done
