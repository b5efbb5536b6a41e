"""Types of the options that give the size of a model, with bounds.

The bounds are far above any model that is trained; a config.json beyond them is damaged or hostile, and is refused
before memory is allocated.
"""

from typing import Annotated

from pydantic import Field

Width = Annotated[int, Field(ge=1, le=65_536)]
"""Of vectors and hidden layers"""
LayerCount = Annotated[int, Field(ge=1, le=1_000)]
HeadCount = Annotated[int, Field(ge=1, le=1_024)]
SequenceLength = Annotated[int, Field(ge=1, le=1_000_000)]
"""Of token sequences"""
