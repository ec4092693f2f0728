time gcloud ai custom-jobs create --region=us-central1 --display-name=one \
  --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/x
nohup gcloud ai custom-jobs create --region=us-central1 --display-name=two \
  --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/y > out.log 2>&1 &
wait
