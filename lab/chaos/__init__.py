"""Random damage as a function of a seed: messages, files, brokers and process faults.

`make chaos` runs it.
"""
