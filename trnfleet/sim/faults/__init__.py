"""Faults: scheduled, drawn or injected, their effects on columns and jobs, and their log lines.

Read `timeline` first: it explains the order within a tick. `schedule` makes incidents from files, rates and commands,
`incident` is one of them, `effects` sums the open ones up, `replicas` finds the part of a serving job that is hit,
`log_lines` writes the events. Random targets and times are drawn in `schedule` and `random_faults`. The table of faults is
`domain.faults.table`: a new fault with an effect that exists is a row there.
"""
