"""Reserved capacity as EC2 has it: Capacity Blocks for ML and On-Demand Capacity Reservations.

Pure: states, rules, prices and the ledger take `now` as an argument. Sources: the EC2 API's model as botocore has it and
the EC2 user guide's pages about Capacity Blocks; what they leave open is marked as assumed where it stands.
"""
