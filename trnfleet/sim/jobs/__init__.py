"""Jobs: training, inference and traces, their activity over time and their slowdowns.

Read `workloads.Workloads.advance` first: all jobs in one window. `lifecycle` divides the window among starting, running
and halted time, `training` and `serving` advance in the running part, `traces` gives recorded utilisation, `fabric` the
network between UltraServers. The answer is a `window.JobTick`; `activity` is the calibration that turns phases into
utilisation, and `slowdown` the only way in which faults and heat reach a job. Draws are made at the start and by time,
never by tick, so that windows of any length agree.
"""
