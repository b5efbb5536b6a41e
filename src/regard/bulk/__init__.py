"""Bulk translation: many lines in numbered parts, by several processes or machines, in a job that can be continued."""
