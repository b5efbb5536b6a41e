"""Train several recipes under the same budget and report the results."""
