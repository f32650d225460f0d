"""Reserved capacity of EC2: Capacity Blocks for ML and On-Demand Capacity Reservations.

Pure: states, rules, prices and the ledger receive `now` as an argument. Read `ledger` first: it
searches, sells and advances time; `blocks.apply` carries each change out. Sources: the EC2 API's
model in botocore and the EC2 user guide's pages about Capacity Blocks; points they leave open are
marked as assumed.
"""
