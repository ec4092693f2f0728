LAYERS="256,128,64"
gcloud ai custom-jobs create --region=us-central1 --display-name=mlp \
  --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/tab/mlp \
  --args="^;^--layers=${LAYERS};--dropout=0.1" \
  --labels="^:^a=1:b=2"
