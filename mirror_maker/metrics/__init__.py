"""What a worker measures, and how it publishes it.

- `lag`: how far a flow is behind. Pure.
- `end_samples`: where a source partition ended, and until when its copy is complete. Pure.
- `latency`: latencies, ages and rates of a flow. Pure.
- `exposition`: the Prometheus text. Pure.
- `batch_ids`: the ids of their spans, by their places. Pure.
- `batch_spans`: OpenTelemetry spans of batches, loaded only for links that want them.
- `span_exporters`: where spans go, by OpenTelemetry's variables.
"""
