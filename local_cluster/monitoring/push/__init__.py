"""The push of metrics by OpenTelemetry, for brokers, mirror workers and aggregators.

Reading order:

    wanted  whether the environment asks for a push
    text    a process whose metrics are Prometheus text
    otlp    the push itself; only this module loads OpenTelemetry's SDK
    exporters  those that the variables name, of metrics and of spans
"""
