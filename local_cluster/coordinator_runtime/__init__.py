"""The runtime of replayed records that the group and the transaction coordinator share."""
