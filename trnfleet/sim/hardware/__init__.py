"""Chips and hosts: utilisation, power, heat, links and counters as columns of wire codes."""
