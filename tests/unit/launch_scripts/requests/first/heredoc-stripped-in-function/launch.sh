write_config() {
	local out=$1
	local image=$2
	cat >"${out}" <<-YAML
	workerPoolSpecs:
	- machineSpec:
	    machineType: n1-standard-4
	  replicaCount: "1"
	  containerSpec:
	    imageUri: ${image}
	    args: ["--workdir=\$AIP_MODEL_DIR"]
	baseOutputDirectory:
	  outputUriPrefix: gs://ads-ctr/${image##*:}
	YAML
}

main() {
	write_config config.yaml gcr.io/ads-ctr/wide:2024
	gcloud ai custom-jobs create --region us-central1 --display-name ctr --config config.yaml
}

main "$@"
