"""Evaluation of conditions: which targets of a rule fulfil them, and with which values.

`trnfleet.domain.alerts.conditions` has the keys of a condition, their checks and their words; here is how each is evaluated.

Targets come in two forms. Those with addresses (chips, links, instances, ...) are rows of the store's columns, a million of them,
and are evaluated in NumPy by `rows` and `medians`. Those with names (jobs, reservations, publishers, the pipeline) are few, hold texts
too, and are evaluated one by one by `named`. Both look up the kind of a condition in a table, `ROW_CONDITIONS` and `NAMED_VALUES`,
and share the comparisons of `compare` and the memory of `windows`.

A condition over rows answers four questions, each for another moment of an evaluation:

* `mask(readings, part)` is asked of all targets, and must cost one pass over one column: which of them may fulfil it? Where the
  value is a metric times a constant, the column's wire codes are compared with the code of the limit and nothing is decoded:
  codes grow with values and the limit is rounded to the code that decides alike, so `code < limit's code` holds exactly
  where `value < limit` does (`compare.compare_codes`; the highest code means "not available" and fulfils nothing).
* `values(readings, rows)` is asked of the rows that the mask has left: what the alert shows as its value. A kind whose mask
  lets more through than fulfils it sets `refines`: then the values are compared as well, and decide.
* `holds(readings, rows)` is asked where it is a condition of `also`: which of those rows fulfil this one, too?
* `look(readings, rows)` is asked of targets that fire and are no longer found: is anything known of them, and is the value on
  the good side of `clear` yet?
"""
