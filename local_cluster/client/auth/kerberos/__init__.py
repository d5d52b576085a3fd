"""Kerberos by the system's GSSAPI library, for clients and brokers.

No package of Python's is needed.

- `settings`: by which principal a client logs in; pure.
- `security_context`: what SASL asks of a GSSAPI context, and its error; pure.
- `gss_login`: the client's messages; pure.
- `gss_structures`: the library's structures and functions, as ctypes has them; shell.
- `gss_library`: names, credentials and contexts, each released by itself; shell.
- `ticket_login`: logins of this process, beside the loop; shell.
"""
