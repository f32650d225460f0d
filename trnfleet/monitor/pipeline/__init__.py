"""The way from publishers to the store, as counts and as one value: publishers, brokers, losses, lag, clocks, and what is wrong.

It imports nothing of the monitor but copies: counts are written by those who count, and the value is made of what it is given.
"""
