"""A student learns from the translations of one teacher, of an ensemble, or of several teachers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.chrf import CHRF

from regard.bundle import Bundle, load_tokenizers
from regard.data.data_file import read_lines
from regard.data.mixture import CorpusConfig
from regard.data.mixture_file import read_mixture
from regard.errors import UserError
from regard.models.encoder_decoder import TransformerConfig
from regard.pipelines.load import load_translator
from regard.synthetic.distillation import Distillation, group_teachers, student_options
from regard.synthetic.model_training import ModelTraining
from regard.synthetic.pair_files import write_corpora
from regard.synthetic.pair_filter import PairFilter
from regard.synthetic.text_translation import TranslatedFile
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
    width = {"d_model": 16, "d_ff": 16, "n_heads": 2}
    assert student_options(ModelTraining("student"), one) == {"model": width}
    assert student_options(ModelTraining("auto"), one) == {"model": {**width, "n_layers": 6, "n_decoder_layers": 1}}
    assert student_options(ModelTraining("rnn-dot"), one) == {}


@pytest.mark.parametrize("recipe", ["student", "auto"])
def test_what_the_user_has_set_overrides_the_sizes_of_the_teacher(
    recipe: str, pairs: tuple[Path, Path], tmp_path: Path
) -> None:
    config = tmp_path / "m64.yaml"
    config.write_text("model: {d_model: 64, n_heads: 4}\n")
    data = write_corpora(tmp_path / "data.yaml", CorpusConfig(files=pairs))
    training = ModelTraining(recipe, config, ("model.n_heads=8",))
    defaults = student_options(training, teacher(tmp_path))
    run = training.run(data, None, tmp_path / "out", ("en", "fr"), defaults)
    chosen = {"model": {"d_model": 256, "n_heads": 2, "d_ff": 512, "n_layers": 3}}
    for each in (run.recipe, *([run.auto.load(chosen)] if run.auto else [])):
        model = each.model
        assert isinstance(model, TransformerConfig)
        assert (model.d_model, model.n_heads, model.d_ff) == (64, 8, 16)
        assert (model.n_layers, model.n_decoder_layers) == (6, 1)


def test_of_several_translations_the_most_similar_to_the_reference_is_taken(
    pairs: tuple[Path, Path], tmp_path: Path
) -> None:
    one = teacher(tmp_path, beam=6)
    plain, best = (distillation([one], pairs, tmp_path / f"best-{n}", best_of=n) for n in (1, 3))
    plain.run(), best.run()
    references = dict(rows(best.folder / "pairs.tsv.gz"))

    def similarity(job: Distillation) -> list[float]:
        pairs = rows(job.folder / "teacher-1.tsv.gz")
        return [CHRF().sentence_score(target, [references[source]]).score for source, target in pairs]

    assert sum(similarity(best)) > sum(similarity(plain))
    lines = list(TranslatedFile(best.folder / "teacher-1.parts", n_lines=57, n_parts=4))
    expected = load_translator(one).translate([line.source for line in lines], split=True, n_best=3)
    texts = [[each.text for each in translation.hypotheses if each.text] for translation in expected]
    assert [[each.text for each in line.candidates] for line in lines] == texts, "with the beam of the teacher"


def test_what_is_done_is_not_done_again(pairs: tuple[Path, Path], tmp_path: Path) -> None:
    job = distillation([teacher(tmp_path)], pairs, tmp_path / "student", best_of=2, filter=PairFilter(keep=0.8))
    results, steps, activities = [], [], []
    for _ in range(2):
        lines: list[str] = []
        shown: list[str] = []
        results.append(job.run(lambda activity, *_, shown=shown: shown.append(activity), lines.append))
        steps.append([line.split()[0] for line in lines])
        activities.append(set(shown))
    assert results[0] == results[1] and results[0].pairs[0].dropped
    assert steps == [["reading", "translating", "filtering", "training"], ["reading"]]
    assert activities == [{"reading", "writing", "translated", "choosing", "filtering"}, set()]


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
    with pytest.raises(UserError, match="form an ensemble; leave --engine out"):
        distillation([one, one], pairs, out, engine="ctranslate2")
    with pytest.raises(UserError, match="beam must be at most"):
        distillation([one], pairs, out, search={"beam": 5000})
    assert not out.exists()
    out.mkdir()
    write_lines(out / "mine", [])
    with pytest.raises(UserError, match="is not empty"):
        distillation([one], pairs, out)
