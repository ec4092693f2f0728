gcloud ai custom-jobs create --region=us-central1 --display-name=delims \
  --args=^@^--layers=64,32@--act=relu '--labels=^|^a=b|c=d' \
  --command='^;^bash;-c;echo a,b' --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x
