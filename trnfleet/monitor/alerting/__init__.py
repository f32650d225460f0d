"""Alerting: rules over the store become alerts with a lifecycle, in Alertmanager's terms.

Read `engine` first: `Alerts.evaluate` is one pass. It uses these modules:

* `inputs` and `named_targets` provide the figures for rules: rows of columns, or tables of jobs,
  reservations and the like;
* `conditions/` finds the targets with fulfilled conditions (see its docstring);
* `rule_state` stores pending and firing targets, and `grouping` makes alerts of them;
* `annotate` describes each alert, `lifecycle` moves it from pending over firing to resolved, and
  `store` stores alerts and history;
* `inhibition` marks alerts covered by a wider one.

Beside it, `published` has the alerts published by another `watch`, `silences` the silences and
acknowledgements of people, `operator` writes these, and `rule_tests` plays tests of rules through
the same engine, like promtool.
"""
