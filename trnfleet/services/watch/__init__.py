"""The watch service: alerts of a fleet without a terminal, published by the leader among the watches.

`run` is the command's entry; `service` is one watch with its role; `identity` says who it is, `peers` hears the other watches,
`operator_state` keeps what operators have retained at the broker, and `describe` writes an alert's message.
"""
