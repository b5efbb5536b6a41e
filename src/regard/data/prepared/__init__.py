"""Corpora prepared in shards: read, cleaned, filtered and tokenised on all cores or on a cluster, in bounded memory."""
