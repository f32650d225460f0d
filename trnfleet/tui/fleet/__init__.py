"""The Fleet view: heat map, findings, jobs and trends."""
