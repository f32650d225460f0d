"""Alerting: rules over the store become alerts with a lifecycle, in Alertmanager's words.

Read `engine` first: `Alerts.evaluate` is one pass. On its way

* `inputs` and `named_targets` give rules their figures: rows of columns, or tables of jobs, reservations and the like;
* `conditions/` finds the targets that fulfil a rule's conditions (its docstring says how);
* `rule_state` keeps which of them are pending or firing, and `grouping` makes alerts of them;
* `annotate` describes each alert, `lifecycle` takes it from pending over firing to resolved, and `store` keeps alerts and history;
* `inhibition` marks alerts that a wider one covers.

Around it, `published` has the alerts that another `watch` published, `silences` the silences and acknowledgements of people,
`operator` writes these, and `rule_tests` plays tests of rules through the same engine, as promtool does.
"""
