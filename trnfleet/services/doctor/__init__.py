"""Findings of `trnfleet doctor`: this machine (`machine`) and a broker (`broker`, `probes`)."""
