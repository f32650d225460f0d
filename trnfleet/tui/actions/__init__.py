"""What keys and commands do whichever view is on the screen: `cursor_keys.py` acts on what the cursor is on."""
