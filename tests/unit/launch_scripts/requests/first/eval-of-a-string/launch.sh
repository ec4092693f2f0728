ARGS="--lr=0.001,--batch=64"
CMD="gcloud ai custom-jobs create --region=us-central1 --display-name='eval run'"
CMD="$CMD --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/x"
CMD="$CMD --args=\"$ARGS\""
echo "Running: $CMD"
eval $CMD
