"""Formulas built from small functions, written as Unicode for a terminal and as MathML for a page."""

from dataclasses import dataclass
from html import escape

_SUBSCRIPTS = dict(zip("0123456789aehijklmnoprstuvx+-−=()", "₀₁₂₃₄₅₆₇₈₉ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ₊₋₋₌₍₎", strict=True))
_SUPERSCRIPTS = dict(zip("0123456789in+-−=()Ttk'", "⁰¹²³⁴⁵⁶⁷⁸⁹ⁱⁿ⁺⁻⁻⁼⁽⁾ᵀᵗᵏ′", strict=True))


@dataclass(frozen=True)
class Formula:
    text: str
    mathml: str
    is_atom: bool = True
    """Whether it needs no brackets inside another formula"""


Part = Formula | str


def expr(*parts: Part) -> Formula:
    """Put parts side by side. Words of a string are names, numbers or operators: `expr("q · k =", frac("1", "2"))`."""
    formulas = [formula for part in parts for formula in _split(part)]
    if len(formulas) == 1:
        return formulas[0]
    text = " ".join(f.text for f in formulas).replace(" ,", ",")
    return Formula(text, _element("mrow", *formulas), is_atom=False)


def words(text: str) -> Formula:
    """Words between the parts of a formula: `expr("x", words("if"), "y = 0")`"""
    return Formula(text, f"<mtext>&#160;{escape(text)}&#160;</mtext>")


def sub(base: Part, index: Part) -> Formula:
    """base with a subscript"""
    a, i = expr(base), expr(index)
    script = _script(i.text.replace(" ", ""), _SUBSCRIPTS, "_")
    return Formula(_bracketed(a) + script, _element("msub", a if a.is_atom else brackets(a), i))


def power(base: Part, exponent: Part) -> Formula:
    """base with a superscript"""
    a, n = expr(base), expr(exponent)
    script = _script(n.text.replace(" ", ""), _SUPERSCRIPTS, "^")
    return Formula(_bracketed(a) + script, _element("msup", a if a.is_atom else brackets(a), n))


def frac(numerator: Part, denominator: Part) -> Formula:
    a, b = expr(numerator), expr(denominator)
    return Formula(f"{_bracketed(a)} / {_bracketed(b)}", _element("mfrac", a, b), is_atom=False)


def sqrt(radicand: Part) -> Formula:
    x = expr(radicand)
    return Formula(f"√{_bracketed(x)}", _element("msqrt", x))


def brackets(*parts: Part) -> Formula:
    x = expr(*parts)
    return Formula(f"({x.text})", f"<mrow><mo>(</mo>{x.mathml}<mo>)</mo></mrow>")


def apply(function: Part, *arguments: Part) -> Formula:
    """A function applied to arguments: `apply("softmax", "e")`"""
    name, values = expr(function), [expr(a) for a in arguments]
    return Formula(
        f"{name.text}({', '.join(x.text for x in values)})",
        f"<mrow>{name.mathml}<mo>(</mo>{'<mo>,</mo>'.join(x.mathml for x in values)}<mo>)</mo></mrow>",
    )


def sum_over(index: Part, *body: Part) -> Formula:
    """Σ of the body over an index"""
    i, x = expr(index), expr(*body)
    sigma = f"<munder><mo>∑</mo>{i.mathml}</munder>"
    script = _script(i.text.replace(" ", ""), _SUBSCRIPTS, "_")
    return Formula(f"Σ{script} {x.text}", f"<mrow>{sigma}{x.mathml}</mrow>", is_atom=False)


def _split(part: Part) -> list[Formula]:
    return [part] if isinstance(part, Formula) else [_word(word) for word in part.split()]


def _word(word: str) -> Formula:
    if word.replace(".", "").replace(",", "").isdigit():
        tag = "mn"
    elif any(character.isalpha() or character == "∞" for character in word):
        tag = "mi"
    else:
        tag = "mo"
    return Formula(word, f"<{tag}>{escape(word)}</{tag}>")


def _element(tag: str, *parts: Formula) -> str:
    return f"<{tag}>{''.join(part.mathml for part in parts)}</{tag}>"


def _bracketed(formula: Formula) -> str:
    return formula.text if formula.is_atom else f"({formula.text})"


def _script(text: str, characters: dict[str, str], operator: str) -> str:
    """Write text in Unicode subscripts or superscripts if all of them exist, otherwise as `_model` or `^(2i/d)`."""
    if all(character in characters for character in text):
        return "".join(characters[character] for character in text)
    return operator + (f"({text})" if set(text) & set("+-−/,") else text)


SOFTMAX = expr(sub("α", "i"), "=", frac(apply("exp", sub("e", "i")), sum_over("j", apply("exp", sub("e", "j")))))
DIVIDE_BY_SUM = expr(sub("α", "i"), "=", frac(sub("e", "i"), sum_over("j", sub("e", "j"))))
UNNORMALISED = expr(sub("α", "i"), "=", sub("e", "i"))
SCALED_SCORES = expr("E =", frac(expr("Q", power("K", "T")), sqrt(sub("d", "k"))))
OUTPUT = expr(sub("y", "i"), "=", sum_over("j", sub("α", "i j"), sub("v", "j")))
ATTENTION = expr(
    apply("A", "Q", "K", "V"), "=", apply("softmax", frac(expr("Q", power("K", "T")), sqrt(sub("d", "k")))), "V"
)
