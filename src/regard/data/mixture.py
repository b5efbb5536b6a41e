"""A mixture of corpora: what a run trains on, in which shares, in which stages and with which changes of the text."""

import hashlib
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from regard.config import Config
from regard.data.modifiers import Modifier
from regard.data.pair_readers import split_languages
from regard.data.pair_rules import FilterConfig
from regard.data.parallel_corpus import Corpus
from regard.text.direction import Direction, Directions
from regard.text.language_codes import same_language


class CorpusConfig(Config):
    """One corpus of a mixture."""

    files: tuple[Path, ...]
    """Two line-aligned files, or one file of pairs."""
    name: str = ""
    """For stages and messages; by default the names of the files."""
    format: Literal["auto", "tsv"] = "auto"
    """auto: by the suffix of a single file; tsv: two columns, whatever its name is."""
    languages: tuple[str, str] | None = None
    """Language codes of the two sides, as in en-fr."""
    tag: str = ""
    """A word that is put in front of every source."""
    valid: tuple[Path, ...] = ()
    """Validation files of the same languages: two line-aligned files, or one file of pairs."""
    test: tuple[Path, ...] = ()
    """Test files of the same languages, for `regard evaluate --data`."""
    weight: float | None = Field(None, ge=0.0, le=1e9)
    """Share of the training pairs, relative to the other corpora."""
    upsample: int = Field(1, ge=1, le=10_000)
    """How many times each pair is seen per epoch, if there are no weights."""

    @field_validator("files", "valid", "test", mode="before")
    @classmethod
    def _list_files(cls, files: Any) -> Any:
        return [files] if isinstance(files, str | Path) else files

    @field_validator("files", "valid", "test")
    @classmethod
    def _check_files(cls, files: tuple[Path, ...]) -> tuple[Path, ...]:
        if len(files) not in (1, 2):
            raise ValueError(f"give two line-aligned files or one file of pairs, not {len(files)} files")
        return files

    @field_validator("languages", mode="before")
    @classmethod
    def _split_languages(cls, codes: Any) -> Any:
        return split_languages(codes) if isinstance(codes, str) else codes

    @field_validator("tag")
    @classmethod
    def _check_tag(cls, tag: str) -> str:
        if tag and (tag.split() != [tag] or not tag.isprintable()):
            raise ValueError("a tag is one word without spaces and control characters, for example <bt>")
        return tag

    @model_validator(mode="before")
    @classmethod
    def _name_by_files(cls, options: Any) -> Any:
        if not isinstance(options, dict) or options.get("name"):
            return options
        files = cls._list_files(options.get("files"))
        if not isinstance(files, list | tuple) or not all(isinstance(file, str | Path) for file in files):
            return options  # the error is found later
        return {**options, "name": " + ".join(Path(file).name for file in files)}

    def corpus(self, filter_: FilterConfig | None = None, languages: tuple[str, str] | None = None) -> Corpus:
        """Return the files as a corpus that can be read; `languages` are those of the run, if it has any."""
        return Corpus(self.files, self.languages or languages, filter=filter_, is_tsv=self.format == "tsv")

    def in_folder(self, folder: Path) -> Self:
        """Return the corpus with its files relative to a folder."""
        names = ("files", "valid", "test")
        return self.model_copy(update={name: tuple(folder / file for file in getattr(self, name)) for name in names})


class StageConfig(Config):
    """A part of the training with its own shares."""

    name: str
    """As in the list of stages"""
    weights: dict[str, float]
    """Share of each corpus, relative to the others"""
    until: str
    """The corpus whose passes are counted"""
    passes: int | None = Field(ge=1, le=1_000_000)
    """How often that corpus is passed before the stage ends; None: the stage has no end"""
    modifiers: tuple[Modifier, ...] | None = None
    """None: those of the mixture"""


class Mixture(Config):
    """Corpora, how they are mixed, and how their texts are changed."""

    corpora: tuple[CorpusConfig, ...]
    temperature: float | None = Field(None, ge=1.0, le=1_000.0)
    """Shares are proportional to size^(1 / temperature)."""
    stages: tuple[StageConfig, ...] = ()
    modifiers: tuple[Modifier, ...] = ()
    seed: int | None = Field(None, ge=0)
    """Of the order of the pairs and of the modifiers; by default that of the run"""
    notes: tuple[str, ...] = ()
    """Lines for the log, such as options that are ignored"""

    @classmethod
    def of_files(cls, files: tuple[Path, ...], languages: tuple[str, str] | None = None) -> Self:
        """Return one corpus, each of whose pairs is seen once per epoch."""
        return cls(corpora=(CorpusConfig(files=files, languages=languages),))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.corpora:
            raise ValueError("there is no corpus; list at least one")
        name, count = Counter(corpus.name for corpus in self.corpora).most_common(1)[0]
        if count > 1:
            raise ValueError(f"{count} corpora are called '{name}'; give each another name")
        self._check_shares()
        self._check_directions()
        for i, stage in enumerate(self.stages):
            self._check_stage(stage, is_last=i == len(self.stages) - 1)
        return self

    def _check_shares(self) -> None:
        weighted = [corpus.name for corpus in self.corpora if corpus.weight is not None]
        if weighted and self.temperature is not None:
            raise ValueError(f"temperature and the weight of '{weighted[0]}' exclude each other; leave one out")
        if self.stages and (weighted or self.temperature is not None):
            raise ValueError("stages have their own weights; leave out temperature and the weights of the corpora")
        if weighted and not any(self.weights.values()):
            raise ValueError("the weight of every corpus is 0; give one of them another")
        upsampled = [corpus.name for corpus in self.corpora if corpus.upsample > 1]
        if upsampled and (weighted or self.stages):
            raise ValueError(
                f"upsample of '{upsampled[0]}' has no effect where weights decide; raise its weight instead"
            )

    def _check_directions(self) -> None:
        """Refuse a corpus without languages if there are several directions, and a direction without valid files."""
        if not self.directions:
            return
        if unnamed := [corpus.name for corpus in self.used if corpus.languages is None]:
            raise ValueError(f"corpus '{unnamed[0]}' needs 'languages', as the corpora are of several language pairs")
        codes = dict.fromkeys(code for direction in self.directions for code in direction.languages)
        for one, other in combinations(codes, 2):
            if same_language(one, other):
                raise ValueError(f"'{one}' and '{other}' are the same language; write one of them in all corpora")
        valid = {corpus.languages for corpus in self.used if corpus.valid}
        if lacking := [direction for direction in self.directions if valid and direction.languages not in valid]:
            raise ValueError(f"{lacking[0].name} has no 'valid' files; give each language pair some, or none of them")

    def _check_stage(self, stage: StageConfig, is_last: bool) -> None:
        names = [corpus.name for corpus in self.corpora]
        for name, weight in stage.weights.items():
            if name not in names:
                raise ValueError(f"stage {stage.name}: there is no corpus '{name}'; there are {', '.join(names)}")
            if not 0 <= weight <= 1e9:
                raise ValueError(f"stage {stage.name}: the weight of '{name}' must be at least 0, not {weight:g}")
        if not any(stage.weights.values()):
            raise ValueError(f"stage {stage.name}: the weight of every corpus is 0; give one of them another")
        if not stage.weights.get(stage.until):
            raise ValueError(f"stage {stage.name}: 'until {stage.until}', but that corpus has no share in this stage")
        if stage.passes is None and not is_last:
            raise ValueError(f"stage {stage.name}: 'until {stage.until} inf' is for the last stage only")

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each corpus; one that has none counts as 1."""
        return {corpus.name: 1.0 if corpus.weight is None else corpus.weight for corpus in self.corpora}

    @property
    def is_weighted(self) -> bool:
        """Whether the corpora have weights of their own, outside stages"""
        return any(corpus.weight is not None for corpus in self.corpora)

    @property
    def used(self) -> tuple[CorpusConfig, ...]:
        """The corpora that have a share, if only in one stage"""
        shares = [stage.weights for stage in self.stages] or [self.weights]
        return tuple(corpus for corpus in self.corpora if any(weights.get(corpus.name) for weights in shares))

    @property
    def follows_sizes(self) -> bool:
        """Whether each pair is seen as often as any other"""
        plain = not self.stages and not self.is_weighted and self.temperature is None
        return plain and all(corpus.upsample == 1 for corpus in self.corpora)

    @property
    def directions(self) -> Directions | None:
        """The directions of the corpora that have a share, if there are several"""
        pairs = [corpus.languages for corpus in self.used if corpus.languages is not None]
        return Directions.of(pairs) if len(set(pairs)) > 1 else None

    def direction(self, corpus: CorpusConfig) -> Direction | None:
        """Return the direction of a corpus, if there are several."""
        several = self.directions or ()
        return next((direction for direction in several if direction.languages == corpus.languages), None)

    def prefix(self, corpus: CorpusConfig, tagged: bool = True) -> str:
        """Return what every source of a corpus begins with: the tag of its target language, and its own if `tagged`."""
        direction = self.direction(corpus)
        tags = (direction.tag if direction else "", corpus.tag if tagged else "")
        return "".join(f"{tag} " for tag in tags if tag)

    @property
    def tags(self) -> tuple[str, ...]:
        """The different tags, which tokenizers must not split"""
        return tuple(dict.fromkeys(tag for corpus in self.corpora for tag in self.prefix(corpus).split()))

    @property
    def fingerprint(self) -> str:
        """Hash of everything but the files, whose content counts and not their names; empty for one plain corpus"""
        first = self.corpora[0]
        plain = self.of_files(first.files, first.languages).corpora[0]
        if self == Mixture(corpora=(plain.model_copy(update={"valid": first.valid, "test": first.test}),)):
            return ""
        unhashed = {"files", "name", "languages", "format", "valid", "test"}
        options = self.model_dump_json(exclude={"notes": True, "corpora": {"__all__": unhashed}})
        return hashlib.sha256(options.encode()).hexdigest()
