"""A student learns from the translations of one teacher, of an ensemble, or of several teachers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.chrf import CHRF

from regard.bundle import Bundle, load_tokenizers
from regard.data.data_file import read_lines
from regard.data.mixture_file import read_mixture
from regard.errors import UserError
from regard.models.encoder_decoder import TransformerConfig
from regard.pipelines.load import load_translator
from regard.synthetic.distillation import Distillation, group_teachers, student_settings
from regard.synthetic.model_training import ModelTraining
from tests.synthetic.conftest import SETTINGS, random_lines, untrained_translator, write_lines

STUDENT = (*SETTINGS, "model.n_decoder_layers=1")


def teacher(folder: Path, seed: int = 0, **options: Any) -> Path:
    return untrained_translator(folder / f"teacher-{seed}-{len(options)}", seed, src="en", tgt="fr", **options)


def distillation(teachers: list[Path], data: tuple[Path, ...], out: Path, **options: Any) -> Distillation:
    training = ModelTraining("student", settings=STUDENT, device="cpu")
    return Distillation(tuple(teachers), data, out, training=training, part_lines=17, **options)


def rows(path: Path) -> list[list[str]]:
    return [line.decode().split("\t") for line in read_lines(path)]


def test_an_ensemble_of_equal_teachers_is_the_teacher(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    one = teacher(tmp_path)
    for name, teachers in (("one", [one]), ("two", [one, one])):
        distillation(teachers, pairs, tmp_path / name).run()
    one_file, two_file = (tmp_path / name / "distillation" / "teacher-1.tsv.gz" for name in ("one", "two"))
    assert rows(one_file) == rows(two_file)
    models = [tmp_path / name / "model.safetensors" for name in ("one", "two")]
    assert models[0].read_bytes() == models[1].read_bytes()


def test_teachers_with_one_tokenizer_are_averaged(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    teachers = [teacher(tmp_path, seed) for seed in (0, 1)]
    job = distillation(teachers, pairs, tmp_path / "student")
    job.run()
    lines = rows(job.folder / "teacher-1.tsv.gz")
    expected = load_translator(*teachers).translate([source for source, _ in lines], split=True)
    assert [target for _, target in lines] == [each.text for each in expected]
    alone = load_translator(teachers[0]).translate([source for source, _ in lines], split=True)
    assert [target for _, target in lines] != [each.text for each in alone]


def test_translations_of_teachers_with_other_tokenizers_are_added(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    teachers = [teacher(tmp_path), teacher(tmp_path, 1, letters="abcdefghi"), teacher(tmp_path, 2)]
    assert group_teachers(tuple(teachers)) == [(teachers[0], teachers[2]), (teachers[1],)]
    job = distillation(teachers, pairs, tmp_path / "student", keep_original=True)
    job.run()
    corpora = read_mixture(job.folder / "train.yaml").corpora
    names = [corpus.files[0].name for corpus in corpora]
    assert names == ["pairs.tsv.gz", "teacher-1.tsv.gz", "teacher-2.tsv.gz"]
    assert rows(corpora[1].files[0]) != rows(corpora[2].files[0])


def test_the_student_has_the_ids_and_the_width_of_its_teacher(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    one = teacher(tmp_path)
    distillation([one], pairs, tmp_path / "student").run()
    student = Bundle.load(tmp_path / "student")
    assert student.tokenizers.fingerprint == load_tokenizers(one).fingerprint
    assert student.languages == ("en", "fr")
    assert isinstance(student.model_config, TransformerConfig)
    assert (student.model_config.d_model, student.model_config.n_decoder_layers) == (16, 1)
    assert len(student.model.attention_modules("cross")) == 1


def test_default_sizes_of_students(tmp_path: Path) -> None:
    one = teacher(tmp_path)
    assert student_settings(ModelTraining("student"), one) == ["model.d_model=16", "model.d_ff=16", "model.n_heads=2"]
    deep = ["model.n_layers=6", "model.n_decoder_layers=1"]
    assert student_settings(ModelTraining("auto"), one)[-2:] == deep
    assert student_settings(ModelTraining("rnn-dot"), one) == []


def test_of_several_translations_the_most_similar_to_the_reference_is_taken(
    pairs: tuple[Path, Path], tmp_path: Path
) -> None:
    one = teacher(tmp_path)
    plain, best = (distillation([one], pairs, tmp_path / f"best-{n}", best_of=n) for n in (1, 4))
    plain.run(), best.run()
    references = dict(rows(best.folder / "pairs.tsv.gz"))

    def similarity(job: Distillation) -> list[float]:
        pairs = rows(job.folder / "teacher-1.tsv.gz")
        return [CHRF().sentence_score(target, [references[source]]).score for source, target in pairs]

    assert sum(similarity(best)) > sum(similarity(plain))


def test_text_of_the_source_language_is_enough(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    one, valid = teacher(tmp_path), (tmp_path / "v.en", tmp_path / "v.fr")
    for path in valid:
        write_lines(path, random_lines(5, seed=9))
    from_text = distillation([one], (pairs[0],), tmp_path / "text", valid=valid)
    from_pairs = distillation([one], pairs, tmp_path / "pairs", valid=valid)
    from_text.run(), from_pairs.run()
    assert rows(from_text.folder / "teacher-1.tsv.gz") == rows(from_pairs.folder / "teacher-1.tsv.gz")
    for options in ({"keep_original": True}, {"best_of": 3}):
        with pytest.raises(UserError, match=r"needs pairs, but .* is text of one language"):
            replace(from_text, **options)


def test_mistakes_are_found_before_anything_is_written(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    one, out = teacher(tmp_path), tmp_path / "student"
    with pytest.raises(UserError, match="name the files in the other order"):
        distillation([one], pairs[::-1], out)
    with pytest.raises(UserError, match="no model found"):
        distillation([tmp_path], pairs, out)
    assert not out.exists()
    out.mkdir()
    write_lines(out / "mine", [])
    with pytest.raises(UserError, match="is not empty"):
        distillation([one], pairs, out)
