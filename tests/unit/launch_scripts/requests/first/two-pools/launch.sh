IMG=us-central1-docker.pkg.dev/recsys/train/twotower
gcloud ai custom-jobs create \
  --region=us-central1 --display-name=twotower-dist \
  --worker-pool-spec=machine-type=n1-highmem-16,replica-count=1,container-image-uri=$IMG \
  --worker-pool-spec=machine-type=n1-highmem-16,replica-count=4,container-image-uri=$IMG \
  --worker-pool-spec=machine-type=n1-highmem-32,replica-count=2,container-image-uri=$IMG \
  --command=python,-m,twotower.main \
  --args=--strategy=ps
