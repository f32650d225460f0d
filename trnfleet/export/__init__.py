"""To whom alerts are told beyond the broker: Alertmanager, webhooks, programs, lines on stdout."""
