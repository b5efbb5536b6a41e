"""Word alignments: read from attention, evaluated against gold alignments, used to carry markup across."""
