"""Problems: active alerts grouped by cause, and findings without a rule.

Each has a place and an impact. `problem.py` is the model. `grouping.py` groups alerts of one cause,
`finding_groups.py` findings. `places.py` finds the place, `impact.py` the affected jobs,
`uncovered.py` the findings without a rule. `search.py` combines them, and `texts.py` has the texts.
"""
