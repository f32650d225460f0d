"""Services without a terminal: simulate, watch, record, replay, bridge, and composing the app.

Read this first: `session.py` is every service's connection to a broker, `discovery.py` finds its
fleets, `live_monitor.py` is a monitor on top of it. The `*_client.py` modules read the messages of
a running service or send it a request; the other modules are one service each, and `files/` reads
and writes files. A service receives values, never options. It prints nothing, and reports lines
through a callable.
"""
