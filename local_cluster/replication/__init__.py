"""Replicas of partitions: high watermark, leader epochs, and acknowledgements parked on them."""
