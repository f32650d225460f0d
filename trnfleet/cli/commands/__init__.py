"""The commands: each parses its options, calls a service and prints.

A command imports its service in its body, not at the top: completion, `--help`, `[common]` of a
settings file and a wrong use need the options alone. That is the one kind of import inside
functions here. What it saves, in seconds of CPU on one core of a virtual machine, beside 0.09 for
the options of one command:

- 0.01  `services.session`, the MQTT client's port: every command about a broker (imported by
  `broker_options`)
- 0.25  `services.record` and `services.files.rules`, 0.28 `services.simulator.client`: pydantic and
  NumPy
- 0.29  `services.files.conversion`: recordings, lines and documents of neuron-monitor
- 0.35 to 0.42  `services.live_monitor`, `services.watch.run`, `services.alerts_client`,
  `services.simulator.publish`
- 0.57  `services.viewing` with `tui.run`: Textual and everything that the app shows

`demo` has a second reason: it starts the broker and the simulator first, and imports the app while
they start. Outside this package such an import has its reason beside it, except for those of
`services.validation`, which loads what the kind of a file needs and nothing else.
"""
