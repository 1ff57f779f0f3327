"""Alerts: conditions, texts for webhooks, the outbox of deliveries, and their dispatcher.

Numbers of watches enter; POSTs and commands leave. Start with `conditions` (when an alert is due),
then `outbox` and `dispatcher`.
"""
