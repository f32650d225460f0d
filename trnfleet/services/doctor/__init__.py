"""What `trnfleet doctor` finds: on this machine (`machine`), and at a broker by trying it (`broker`, `probes`)."""
