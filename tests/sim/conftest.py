"""Fleets and engines for the simulator's tests."""

from __future__ import annotations

from support.sim.fleets import inference, make_engine, make_fleet, shipped, training

__all__ = ["inference", "make_engine", "make_fleet", "shipped", "training"]
