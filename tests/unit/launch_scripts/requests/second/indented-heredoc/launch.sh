#!/bin/bash
submit() {
	cat <<-EOF > /tmp/ada-$$.yaml
	workerPoolSpecs:
	- machineSpec:
	    machineType: $1
	  replicaCount: 1
	  containerSpec:
	    imageUri: gcr.io/p/ind
	    args: ["--day=$(date +%F)"]
	EOF
	gcloud ai custom-jobs create --region=us-central1 --display-name=ind-$1 --config=/tmp/ada-$$.yaml
}
submit n1-standard-4
