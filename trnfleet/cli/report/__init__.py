"""What `trnfleet status` prints of reservations, and of several fleets together."""
