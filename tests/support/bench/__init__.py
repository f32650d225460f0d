"""Parts that benchmarks of the whole program share: fleets encoded beforehand, and what an app in a terminal shows."""
