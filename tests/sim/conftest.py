"""Fleets and engines for the simulator's tests."""

from __future__ import annotations

from support.sim.fleets import even_steps, inference, make_engine, make_fleet, shipped, training

__all__ = ["even_steps", "inference", "make_engine", "make_fleet", "shipped", "training"]
