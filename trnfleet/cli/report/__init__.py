"""Output of `trnfleet status` about reservations, and about several fleets together."""
