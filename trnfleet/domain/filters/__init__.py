"""The filter language of every list, tree and map: `columns.py` has the columns that a view offers, `language.py` parses and evaluates."""
