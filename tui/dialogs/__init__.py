"""Forms and questions in front of a page.

The user's text enters; a checked value leaves, or nothing if the dialog is cancelled. Start with
`simple`.
"""
