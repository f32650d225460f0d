"""Chips and hosts: utilisation, power, heat, links and counters as columns of wire codes.

Read `chips.ChipPhysics.fill` first. Values are computed once per cohort of similar chips, then
distributed to chips with noise in integers (`columns`). Before that, `thermal` decides the speed
under heat and power limits. `power` and `links` compute the chips' power and traffic, `hosts` and
`ecc` the rest; `silent_rows` hides silent instances. Noise is drawn from `rng` by stream, tick and
instance.
"""
