"""Charts beside and below each other.

The modules divide the space and make the charts of one place or job.
"""
