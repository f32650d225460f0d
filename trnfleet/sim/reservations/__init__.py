"""The simulated account: Capacity Blocks on the fleet's instances, and their messages.

`account` drives the ledger of `domain.reservations` in simulated time and starts and stops the jobs
in blocks; the engine calls it after the faults of each part of a tick. `messages` turns changes and
requests into messages. Ids and failing payments follow from the seed through a token source that is
handed to the ledger.
"""
