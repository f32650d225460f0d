"""Faults: scheduled, drawn or injected; their effects on columns and jobs; their log lines.

Read `timeline` first: it explains the order within a tick. `schedule` creates incidents from files,
rates and commands, `incident` is one of them, and `effects` sums up the open ones. `replicas` finds
the affected part of a serving job, and `log_lines` writes the events. Random targets and times are
drawn in `schedule` and `random_faults`. The table of faults is `domain.faults.table`: a new fault
with an existing effect is a row there.
"""
