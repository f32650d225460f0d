"""Faults: scheduled, drawn or injected, their effects on columns and jobs, and their log lines."""
