"""The watch service: alerts of a fleet without a terminal, published by the leading watch.

`run` is the command's entry; `service` is one watch with its role; `identity` is its identity;
`peers` receives the other watches, and stores the operators' retained messages.
"""
