"""Is a silence theirs or ours, and why.

Every cause of silence is a class that begins, ends and explains instances. `Reachability` asks them
all. Its one answer serves freshness, alerts, publishers and the status line.
"""
