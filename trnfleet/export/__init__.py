"""Notifications of alerts beyond the broker: Alertmanager, webhooks, programs, lines on stdout.

Read `notification_log` first: it decides which alerts are published and which receiver gets which notification, from the
retained messages of the broker and the alerts of the moment. `receiver` is the interface that `alertmanager`, `webhook`,
`command` and `ndjson` implement, `election` says which of several watches does all this.
"""
