"""Formulas, put together by small functions and shown in two ways: Unicode for a terminal, MathML for a page."""

from dataclasses import dataclass
from html import escape

_BELOW = dict(zip("0123456789aehijklmnoprstuvx+-−=()", "₀₁₂₃₄₅₆₇₈₉ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ₊₋₋₌₍₎", strict=True))
_ABOVE = dict(zip("0123456789in+-−=()Ttk'", "⁰¹²³⁴⁵⁶⁷⁸⁹ⁱⁿ⁺⁻⁻⁼⁽⁾ᵀᵗᵏ′", strict=True))


@dataclass(frozen=True)
class Formula:
    text: str
    mathml: str
    single: bool = True
    """Whether it stands in another formula without brackets"""


Part = Formula | str


def math(*parts: Part) -> Formula:
    """Parts side by side. Words of a string are names, numbers or signs: `math("q · k =", frac("1", "2"))`"""
    found = [formula for part in parts for formula in _split(part)]
    if len(found) == 1:
        return found[0]
    text = " ".join(f.text for f in found).replace(" ,", ",")
    return Formula(text, _tag("mrow", *found), single=False)


def sub(base: Part, index: Part) -> Formula:
    a, i = math(base), math(index)
    return Formula(_bracketed(a) + _raised(i.text.replace(" ", ""), _BELOW, "_"), _tag("msub", a, i))


def power(base: Part, exponent: Part) -> Formula:
    a, n = math(base), math(exponent)
    raised = _raised(n.text.replace(" ", ""), _ABOVE, "^")
    return Formula(_bracketed(a) + raised, _tag("msup", a if a.single else brackets(a), n))


def frac(above: Part, below: Part) -> Formula:
    a, b = math(above), math(below)
    return Formula(f"{_bracketed(a)} / {_bracketed(b)}", _tag("mfrac", a, b), single=False)


def root(inside: Part) -> Formula:
    x = math(inside)
    return Formula(f"√{_bracketed(x)}", _tag("msqrt", x))


def brackets(*parts: Part) -> Formula:
    x = math(*parts)
    return Formula(f"({x.text})", f"<mrow><mo>(</mo>{x.mathml}<mo>)</mo></mrow>")


def of(name: Part, *arguments: Part) -> Formula:
    """A function of something: `of("softmax", "e")`"""
    function, inside = math(name), [math(a) for a in arguments]
    return Formula(
        f"{function.text}({', '.join(x.text for x in inside)})",
        f"<mrow>{function.mathml}<mo>(</mo>{'<mo>,</mo>'.join(x.mathml for x in inside)}<mo>)</mo></mrow>",
    )


def total(index: Part, *body: Part) -> Formula:
    """Σ over an index"""
    i, x = math(index), math(*body)
    sign = f"<munder><mo>∑</mo>{i.mathml}</munder>"
    below = _raised(i.text.replace(" ", ""), _BELOW, "_")
    return Formula(f"Σ{below} {x.text}", f"<mrow>{sign}{x.mathml}</mrow>", single=False)


def _split(part: Part) -> list[Formula]:
    return [part] if isinstance(part, Formula) else [_word(word) for word in part.split()]


def _word(word: str) -> Formula:
    if word.replace(".", "").replace(",", "").isdigit():
        tag = "mn"
    elif any(letter.isalpha() or letter == "∞" for letter in word):
        tag = "mi"
    else:
        tag = "mo"
    return Formula(word, f"<{tag}>{escape(word)}</{tag}>")


def _tag(name: str, *parts: Formula) -> str:
    return f"<{name}>{''.join(part.mathml for part in parts)}</{name}>"


def _bracketed(formula: Formula) -> str:
    return formula.text if formula.single else f"({formula.text})"


def _raised(text: str, letters: dict[str, str], sign: str) -> str:
    """Small letters where Unicode has them all; otherwise `_model` or `^(2i/d)`"""
    if all(letter in letters for letter in text):
        return "".join(letters[letter] for letter in text)
    return sign + (f"({text})" if set(text) & set("+-−/,") else text)


SOFTMAX = math(sub("α", "i"), "=", frac(of("exp", sub("e", "i")), total("j", of("exp", sub("e", "j")))))
SUM = math(sub("α", "i"), "=", frac(sub("e", "i"), total("j", sub("e", "j"))))
PLAIN = math(sub("α", "i"), "=", sub("e", "i"))
SCORES = math("E =", frac(math("Q", power("K", "T")), root(sub("d", "k"))))
OUTPUT = math(sub("y", "i"), "=", total("j", sub("α", "i j"), sub("v", "j")))
ATTENTION = math(of("A", "Q", "K", "V"), "=", of("softmax", frac(math("Q", power("K", "T")), root(sub("d", "k")))), "V")
