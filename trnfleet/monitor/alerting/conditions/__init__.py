"""Evaluation of conditions: the targets of a rule that fulfil them, and their values.

`trnfleet.domain.alerts.conditions` defines the keys, checks and words of a condition. This package
evaluates it.

Targets come in two forms. Targets with addresses (chips, links, instances, ...) are rows of the
store's columns, up to a million, evaluated in NumPy by `rows` and `medians`. Targets with names
(jobs, reservations, publishers, the pipeline) are few, may have text values, and are evaluated one
by one by `named`. Both find the kind of a condition in a table, `ROW_CONDITIONS` and
`NAMED_VALUES`, and share the comparisons of `compare` and the history of `windows`.

A condition over rows has four methods, called at different points of an evaluation:

* `mask(readings, part)` finds candidates among all targets, in one pass over one column. Where the
  value is a metric times a constant, the column's wire codes are compared with the code of the
  limit, without decoding. Codes grow with values, and the limit is rounded to the code with the
  same result: `code < limit's code` exactly if `value < limit` (`compare.compare_codes`; the
      highest
  code means "not available" and fulfils nothing).
* `values(readings, rows)` computes the alert's value for the rows left by the mask. A kind with too
  wide a mask sets `refines`: then these values are compared as well, and decide.
* `holds(readings, rows)` filters the rows by a condition of `also`.
* `look(readings, rows)` checks firing targets no longer found: is anything known of them, and is
  the
  value on the good side of `clear` yet?
"""
