from regard.data.builtin import lexicon as lex


def test_each_form_belongs_to_one_lemma() -> None:
    english: dict[str, set[str]] = {}
    french: dict[str, set[str]] = {}
    entries = [
        *((n.en, (n.en, n.english(True)), (n.fr, n.french(True))) for n in lex.NOUNS.values()),
        *((a.en, (a.en,), a.forms) for a in (*lex.ADJECTIVES.values(), *lex.DETERMINERS.values())),
        *((v.en, (v.en, lex.add_s(v.en), v.past), (*v.present, v.participle)) for v in lex.VERBS.values()),
    ]
    for lemma, english_forms, french_forms in entries:
        for form in english_forms:
            english.setdefault(form, set()).add(lemma)
        for form in french_forms:
            french.setdefault(form, set()).add(lemma)
    same_in_french = [{"a", "some"}, {"this", "these"}]
    assert all(len(lemmas) == 1 for lemmas in english.values())
    assert all(len(lemmas) == 1 or lemmas in same_in_french for lemmas in french.values())
