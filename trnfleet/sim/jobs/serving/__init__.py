"""Inference jobs by request.

Read `inference.InferenceJobs.advance` first: all jobs that serve in one window. `requests` come to replicas, whose queues and
batches are in `batches` and whose times in `times`; `replica_rows` are what their chips do.
"""
