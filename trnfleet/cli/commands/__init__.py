"""The commands: each parses its options, calls a service and prints.

A command imports its service in its body, when it is called, because `--help` and completion import the command alone, and a
wrong use is refused before anything heavy is loaded.
"""
