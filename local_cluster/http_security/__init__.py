"""Who may use the HTTP ports of brokers, mirror workers and aggregators.

- `settings`: tokens, certificates, and which addresses need them. Pure.
- `addresses`: loopback addresses and URLs. Pure.
- `decision`: whether a request is allowed. Pure.
- `tokens`: the tokens themselves, read again when their files change.
- `guard`: the server side, as an aiohttp middleware and a TLS context.
- `answers`: refusals and failures as JSON.
- `arrivals`: accepts connections.
- `port`: a port that serves an application, and its limits.
- `credentials`: the client side, the token and the TLS context of a request.
- `request`: one request of a command, with limits of bytes and time.
"""
