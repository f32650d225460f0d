"""The filter language of every list, tree and map.

`columns.py` has a view's columns, `language.py` parses and evaluates.
"""
