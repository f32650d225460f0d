"""Long runs outside the suite: damage, memory, truth, brokers, speed and pictures.

`make help` lists their targets. Code shared with the tests is in `tests/support/`.
"""
