"""The Jobs view: where the paid time of each job went, and what it lost.

`table` has the jobs by lost money, `details` the one under the cursor.
"""
