"""The transaction coordinator: transactional ids and their transactions as replayed records."""
