"""Services without a terminal, made of several packages: simulate, watch, record, replay, bridge, compose the app.

Read this first: `session.py` is the connection that every service about a broker takes, `discovery.py` finds its fleets,
`live_monitor.py` is a monitor on top of it. The `*_client.py` modules read what a running service has published or ask it for
something; the other modules are one service each, and `files/` reads and writes files. A service takes values, never options: it prints nothing, and reports lines through a callable.
"""
