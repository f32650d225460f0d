#!/bin/sh
# Slurm epilog: frees the Neuron devices of a job that has ended; see prolog.sh.

folder=${TRNFLEET_JOB_MAPPING:-/run/trnfleet/jobs}

for file in "$folder"/*; do
    # The next job may have begun already.
    if [ "$(cat "$file" 2>/dev/null)" = "$SLURM_JOB_ID" ]; then rm -f "$file"; fi
done
exit 0
