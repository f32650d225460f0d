"""Inference jobs by request.

Read `inference.InferenceJobs.advance` first: all serving jobs in one window. `requests` arrive at
replicas. Their queues and batches are in `batches`, their times in `times`; `replica_rows` is the
work of their chips.
"""
