"""The commands: each parses its options, calls a service and prints.

A command imports its service in its body, not at the top: completion, `--help`, `[common]` of a settings file and a wrong use
need the options alone. That is the one kind of import inside functions here. What it saves, in seconds of CPU on one AMD
EPYC core, beside 0.06 for `trnfleet --help` and 0.11 for the options of one command:

- 0.06  `services.session`, the MQTT client: every command about a broker (imported by `broker_options`)
- 0.13  `services.record`: without pydantic and NumPy, so that recording begins at once
- 0.26  `services.files.rules`, 0.30 `services.simulator.client`: pydantic and NumPy
- 0.35  `services.files.conversion`: recordings, lines and documents of neuron-monitor
- 0.50  `services.live_monitor`, `services.watch.run`, `services.alerts_client`, `services.simulator.publish`
- 0.88  `services.viewing` with `tui.run`: Textual and everything that the app shows

`demo` has a second reason: it starts the broker and the simulator first, and imports the app while they start.
Outside this package seven such imports are left, each with its reason beside it, and those of `services.validation`, which loads
what the kind of a file needs and nothing else.
"""
