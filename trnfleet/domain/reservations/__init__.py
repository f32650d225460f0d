"""Reserved capacity as EC2 has it: Capacity Blocks for ML and On-Demand Capacity Reservations.

Pure: states, rules, prices and the ledger take `now` as an argument. Read `ledger` first: it searches, sells and moves time on;
`blocks.apply` carries each change out. Sources: the EC2 API's model as botocore has it and
the EC2 user guide's pages about Capacity Blocks; points that they leave open are marked as assumed.
"""
