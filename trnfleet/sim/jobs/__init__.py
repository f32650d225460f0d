"""Jobs: training, inference and traces, their activity over time and their slowdowns.

Read `workloads.Workloads.advance` first: all jobs in one window. `lifecycle` divides the window
among starting, running and halted time, `training` and `serving` advance in the running part,
`traces` reads recorded utilisation, `fabric` models the network between UltraServers. The result is
a `window.JobTick`. `activity` is the calibration from phases to utilisation. Faults and heat affect
a job only through `slowdown`. Draws are made at the start and by time, never by tick, so that
windows of any length agree.
"""
