#!/bin/bash
region=us-central1; name=opt-job
while getopts "r:n:h" opt; do
  case "$opt" in
    r) region=$OPTARG ;;
    n) name=$OPTARG ;;
    h|*) echo "usage: $0 [-r region] [-n name]"; exit 1 ;;
  esac
done
shift $((OPTIND - 1))
gcloud ai custom-jobs create --region="$region" --display-name="$name" --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x
