"""`heliograph doctor` and `support-bundle`.

In reading order:

    checks     what is wrong, and what could be better; pure
    collect    gathers the facts, with those of `topology/why/`
    redact     takes secrets out of texts; pure
    bundle     the archive
    command    the two commands
"""
