"""Inference jobs by request.

Read `inference.InferenceJobs.advance` first: all serving jobs in one window, with the queues and
batches of their replicas. `requests` arrive at replicas, `times` has their times, and
`replica_rows` the work of their chips.
"""
