"""The pipeline from publishers to the store: counts, lag, clocks, losses and problems.

Of the monitor it imports only copies. Counts are written by their owners, and the health value is
made from its arguments.
"""
