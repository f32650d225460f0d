"""Keys and commands of every view.

`cursor_keys.py` acts on the item under the cursor.
"""
