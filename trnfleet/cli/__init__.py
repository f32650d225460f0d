"""The command line: commands, their options, and the settings file.

A command parses options, calls a service or the app, and prints. Read `main.py` first, then one
module of `commands/`. `options.py` makes a `BrokerSession` of the options about a broker.
"""
