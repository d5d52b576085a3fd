"""`heliograph audit`: are the copies what the sources hold?

`command` is the command line, `reading` answers, `published` reads what a link has published,
`records` compares both logs record by record; `document` and `show` are its JSON and its words.
"""
