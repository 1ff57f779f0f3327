"""Alerts: conditions, texts for webhooks, the outbox of deliveries, and their dispatcher."""
