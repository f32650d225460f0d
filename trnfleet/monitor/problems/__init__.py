"""Problems: active alerts grouped by cause, with place and impact, and findings that no rule looks at.

`problem.py` is the model, `grouping.py` joins alerts of one cause and `finding_groups.py` findings, `places.py` tells where a problem is, `impact.py` which jobs
it hurts, `uncovered.py` which findings no rule looks at, `search.py` puts them together, and `texts.py` has the words.
"""
