"""The pages of the application: what is shown, from the model.

News of the model enter; text on the screen leaves. Start with `page` (what all pages share), then
`overview`.
"""
