#!/bin/bash
args=(ai custom-jobs create --region=us-central1 --display-name=app --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x)
[[ -f labels.txt ]] && args+=(--labels="$(paste -sd, labels.txt)")
[[ "${WEB:-no}" == yes ]] && args+=(--enable-web-access)
gcloud "${args[@]}"
