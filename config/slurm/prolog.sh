#!/bin/sh
# Slurm prolog: writes which job has the Neuron devices of this node, as a job-mapping directory that the agent reads.
# For nodes that are given whole, as Trainium nodes mostly are: every device gets the job. In slurm.conf:
#
#   Prolog=/etc/slurm/trnfleet-prolog.sh
#   Epilog=/etc/slurm/trnfleet-epilog.sh
#
# A prolog that fails drains its node; this one never does.

folder=${TRNFLEET_JOB_MAPPING:-/run/trnfleet/jobs}
devices=${TRNFLEET_DEVICES:-$(find /dev -maxdepth 1 -name 'neuron[0-9]*' | wc -l)}

mkdir -p "$folder" || exit 0
device=0
while [ "$device" -lt "$devices" ]; do
    # Readers see the old file or the new one. A file that a crash has left is replaced.
    echo "$SLURM_JOB_ID" >"$folder/$device.new" && mv "$folder/$device.new" "$folder/$device"
    device=$((device + 1))
done
exit 0
