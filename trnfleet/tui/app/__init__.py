"""The app, from the terminal up.

`input.py` reads keys and pointer, `terminal.py` draws, `screen.py` shows views and bars,
`time_keys.py` and `actions.py` have what keys and commands do, and `app.py` the whole. Each class
extends the one before; none calls upwards.
"""
