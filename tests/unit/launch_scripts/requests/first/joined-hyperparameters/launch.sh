declare -a HP=("--lr=1e-4" "--wd=0.01" "--warmup=500")
join_by() { local IFS="$1"; shift; echo "$*"; }
gcloud ai custom-jobs create --region=us-central1 --display-name=vit \
  --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/vit \
  --args="$(join_by , "${HP[@]}")"
