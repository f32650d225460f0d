"""The Events view.

`list.py` follows and filters events, `view.py` adds head, foot and prompt.
"""
