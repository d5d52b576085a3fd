"""follower."""
