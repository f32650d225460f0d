"""Chips and hosts: utilisation, power, heat, links and counters as columns of wire codes.

Read `chips.ChipPhysics.fill` first. Values are computed once for a cohort of chips that are alike, then handed out to
chips with noise in integers (`columns`). `thermal` decides before that which speed heat and power limits leave; `power`
and `links` give what chips draw and carry, `hosts` and `ecc` the rest; `silent_rows` hides instances that publish nothing.
Noise is drawn from `rng` by stream, tick and instance.
"""
