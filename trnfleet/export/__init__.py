"""Notifications of alerts beyond the broker: Alertmanager, webhooks, programs, stdout.

Read `notification_log` first: it decides which alerts are published and which receiver gets which
notification, from the broker's retained messages and the current alerts. `receiver` is the
interface of `alertmanager`, `webhook`, `command` and `ndjson`; `election` elects the watch that
does all this.
"""
