"""Alerts: conditions of a watch's number, texts that webhooks get, and what waits to be sent."""
