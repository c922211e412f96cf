"""AirQA's 19 evaluation functions by name (its table 8 and appendix A.3), and two of NeuSym-RAG for SciDQA and M3SciQA.

evaluator = read_evaluator("eval_string_exact_match", {"gold": "Italian", "lowercase": True})
evaluator.score("ITALIAN")  # Outcome(passed=True)

AirQA's functions are Python functions with ``**kwargs``, called with the values of its file whatever their types are
(https://github.com/OpenDFM/NeuSym-RAG, evaluation/). So an argument that a function does not have is ignored here, and
a value of another type is converted, both with a note. What those functions raise an error for scores 0 there and here.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import shown
from scholarbase_research.evaluation.qa import matching
from scholarbase_research.evaluation.qa.judging import Judge, JudgeFailed
from scholarbase_research.evaluation.qa.literals import as_list, check_answer, number
from scholarbase_research.evaluation.qa.matching import ELEMENT_TYPES, FUZZ_METHODS, Options

Genre = Literal["objective", "subjective", "logical"]

MAX_GOLD: Final = 200
"""Items of a gold list, and functions of a conjunction or disjunction."""
MAX_NESTING: Final = 5
_REQUIRED: Final = object()
_PASSES: Final = 0.5
"""The grade from which an answer passes as a part of a logical function."""


class Outcome(NamedTuple):
    """Whether an answer passed; None if that is unknown, and ``error`` says why. ``grade``, from 0 to 1, is of the
    functions that grade an answer, which passes from 0.5 on."""

    passed: bool | None
    error: str | None = None
    grade: float | None = None


class Parameter(NamedTuple):
    """``accepts`` decides whether a value is valid, ``expected`` describes valid ones. A value that is not valid is
    given to ``convert`` first."""

    accepts: Callable[[Any], bool]
    expected: str
    default: Any = _REQUIRED
    convert: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True, slots=True)
class Function:
    """``decide`` gets the answer, the arguments with defaults, and the judge."""

    name: str
    genre: Genre
    parameters: Mapping[str, Parameter]
    decide: Callable[[Any, Mapping[str, Any], Judge | None], bool | float] | None


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A function with its arguments; ``parts`` are those of a logical function.

    ``problem`` says why it cannot be applied: every answer then fails. ``notes`` say what was ignored or converted.
    """

    function: Function
    arguments: Mapping[str, Any]
    parts: tuple[Evaluator, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def is_subjective(self) -> bool:
        """Whether it needs a judge: a semantic function, or a logical one with such a part."""
        return self.function.genre == "subjective" or any(part.is_subjective for part in self.parts)

    def score(self, answer: Any, judge: Judge | None = None) -> Outcome:
        """Evaluate an answer: a JSON value, or the text of a Python or JSON literal where one is expected."""
        try:
            check_answer(answer)
        except InvalidRequest as error:
            return Outcome(None, str(error))
        return self._score(answer, judge)

    def _score(self, answer: Any, judge: Judge | None) -> Outcome:
        if self.problem is not None:
            return Outcome(False)
        if self.parts:
            return _LOGIC[self.function.name](self.parts, answer, judge)
        assert self.function.decide is not None
        try:
            decided = self.function.decide(answer, self.arguments, judge)
        except JudgeFailed as error:
            return Outcome(None, f"{self.function.name}: {error}")
        if isinstance(decided, bool):
            return Outcome(decided)
        return Outcome(decided >= _PASSES, grade=decided)


# -- parameters -----------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MAX_GOLD and all(map(_is_text, value))


def _is_gold_list(value: Any) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MAX_GOLD


def _is_object(value: Any) -> bool:
    """No list in it is longer than ``MAX_GOLD``."""
    if isinstance(value, dict | list):
        parts = list(value.values()) if isinstance(value, dict) else value
        return len(parts) <= MAX_GOLD and all(map(_is_object, parts))
    return True


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _as_bool(value: Any) -> Any:
    return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(
        str(value).strip().lower(), value
    )


def _as_whole(value: Any) -> Any:
    read = number(value)
    return int(read) if read is not None and read == int(read) else value


def _as_number(value: Any) -> Any:
    read = number(value)
    return value if read is None else read


def _in_a_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int | float) else value


_TEXT_OR_LIST: Final = Parameter(
    lambda v: isinstance(v, str) or _is_gold_list(v), f"a text, or a list of 1 to {MAX_GOLD}", convert=str
)
_NOT_EMPTY: Final = Parameter(_is_text, "a text that is not empty", convert=str)
_TEXTS: Final = Parameter(_are_texts, f"a list of 1 to {MAX_GOLD} texts", convert=_in_a_list)
_GOLD_LIST: Final = Parameter(_is_gold_list, f"a list of 1 to {MAX_GOLD} values", convert=_in_a_list)
_TEXT_OR_TEXTS: Final = Parameter(
    lambda v: _is_text(v) or _are_texts(v), f"a text, or a list of 1 to {MAX_GOLD}"
)
_FALSE: Final = Parameter(_is_bool, "true or false", False, _as_bool)
_TRUE: Final = Parameter(_is_bool, "true or false", True, _as_bool)

_BLANKS: Final = {"lowercase": _FALSE, "ignore_blank": _FALSE}
_ROUNDING: Final = {
    "ndigits": Parameter(
        lambda v: v is None or (_is_whole(v) and 0 <= v <= 20), "a whole number from 0 to 20", None, _as_whole
    ),
    "tolerance": Parameter(lambda v: _is_number(v) and 0 <= v <= 1, "a number from 0 to 1", 1e-6, _as_number),
}
_FUZZ: Final = {
    "fuzz_method": Parameter(lambda v: v in FUZZ_METHODS, f"one of {', '.join(FUZZ_METHODS)}", "ratio"),
    "threshold": Parameter(
        lambda v: _is_number(v) and v <= 100,
        "a number up to 100, or -1 for an exact match",
        -1,
        _as_number,
    ),
}
_ALWAYS_FUZZY: Final = {
    **_FUZZ,
    "threshold": Parameter(
        lambda v: _is_number(v) and 0 <= v <= 100, "a number from 0 to 100", 95, _as_number
    ),
}
_ELEMENTS: Final = {
    "gold": _GOLD_LIST,
    "element_type": Parameter(lambda v: v in ELEMENT_TYPES, f"one of {', '.join(ELEMENT_TYPES)}", "str"),
    **_BLANKS,
    **_FUZZ,
    **_ROUNDING,
    "ndigits": _ROUNDING["ndigits"]._replace(default=2),
    "ignore_order": _FALSE,
}
_JUDGED: Final = {
    "question": _NOT_EMPTY,
    "llm_model": Parameter(lambda v: v is None or _is_text(v), "the name of a model", None),
    "temperature": Parameter(lambda v: v is None or _is_number(v), "a number", None),
}
_COUNT: Final = Parameter(lambda v: _is_whole(v) and v >= 1, "a whole number of 1 or more", 1, _as_whole)
_MODEL: Final = {"model": _JUDGED["llm_model"]}
"""The judge's name, of NeuSym-RAG's functions."""
_FUNCTIONS: Final = Parameter(
    lambda v: isinstance(v, list) and 0 < len(v) <= MAX_GOLD and all(isinstance(i, str) for i in v),
    f"a list of 1 to {MAX_GOLD} names of functions",
)
_ARGUMENTS: Final = Parameter(
    lambda v: isinstance(v, list) and all(isinstance(i, dict) for i in v),
    "a list with the arguments of each function",
)

_OPTIONS: Final = tuple(field.name for field in fields(Options))


# -- the list -------------------------------------------------------------------------------------------


def _as_texts(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value]


def _objective(
    name: str, parameters: Mapping[str, Parameter], same: Callable[[Any, Any, Options], bool]
) -> Function:
    """A function that compares the answer with the first parameter. A list as the gold text is compared as a list."""
    gold = next(iter(parameters))

    def decide(answer: Any, a: Mapping[str, Any], judge: Judge | None) -> bool:
        is_list = parameters[gold] is _TEXT_OR_LIST and isinstance(a[gold], list)
        compare = matching.same_object if is_list else same
        return compare(answer, a[gold], Options(**{name: a[name] for name in _OPTIONS if name in a}))

    return Function(name, "objective", parameters, decide)


def _judged(
    name: str, parameters: Mapping[str, Parameter], task: str, *, graded: bool = False, **headings: str
) -> Function:
    """A function of the judge.

    Args:
        task: when the answer is right. ``{n}`` is the number of texts in the last list, ``{order}`` their order.
        graded: the judge gives a grade instead, and ``task`` says for what.
        headings: the headings of the parameters that the answer is compared with. Those in the plural are lists.
    """

    def decide(answer: Any, a: Mapping[str, Any], judge: Judge | None) -> bool | float:
        if judge is None:
            raise JudgeFailed(
                "This function needs a judge, and none is set: give a language model as the judge."
            )
        parts = {
            heading: _as_texts(a[parameter]) if heading.endswith("s") else a[parameter]
            for parameter, heading in headings.items()
        }
        sizes = [len(value) for value in parts.values() if isinstance(value, list)]
        order = "in any order" if a.get("ignore_order") else "in this order"
        sentence = task.format(n=sizes[-1] if sizes else 1, order=order, count=a.get("count"))
        if graded:
            return judge.grade(a["question"], sentence, parts, answer)
        return judge.decide(a["question"], f"It is right if {sentence}", parts, answer)

    return Function(name, "subjective", {**parameters, **_JUDGED}, decide)


_ALL: Final = (
    _objective("eval_bool_exact_match", {"gold": _FALSE._replace(default=_REQUIRED)}, matching.same_bool),
    _objective(
        "eval_float_exact_match",
        {"gold": Parameter(_is_number, "a number", convert=_as_number), **_ROUNDING},
        matching.same_float,
    ),
    _objective(
        "eval_int_exact_match",
        {"gold": Parameter(_is_whole, "a whole number", convert=_as_whole)},
        matching.same_int,
    ),
    _objective("eval_string_exact_match", {"gold": _TEXT_OR_LIST, **_BLANKS}, matching.same_text),
    _objective(
        "eval_string_fuzzy_match", {"gold": _TEXT_OR_LIST, **_BLANKS, **_ALWAYS_FUZZY}, matching.similar_text
    ),
    _objective(
        "eval_structured_object_exact_match",
        {
            "gold": Parameter(_is_object, f"a value whose lists have at most {MAX_GOLD} items"),
            **(_BLANKS | _FUZZ | _ROUNDING),
            "ignore_order": _FALSE,
        },
        matching.same_object,
    ),
    _objective("eval_element_included", _ELEMENTS, matching.is_element),
    _objective("eval_element_list_included", _ELEMENTS, matching.all_are_elements),
    _objective("eval_element_list_overlap", {**_ELEMENTS, "count": _COUNT}, matching.overlap),
    _objective(
        "eval_paper_relevance_with_reference_answer",
        {
            "reference_answer": _TEXT_OR_TEXTS,
            "question": Parameter(lambda v: isinstance(v, str), "a text", ""),
            "threshold": _ALWAYS_FUZZY["threshold"],
        },
        matching.same_title,
    ),
    _judged(
        "eval_reference_answer_with_llm",
        {"reference_answer": _NOT_EMPTY},
        "it says the same as the reference answer.",
        reference_answer="Reference answer",
    ),
    _judged(
        "eval_candidate_reference_answer_with_llm",
        {"candidate_reference_answers": _TEXTS},
        "it says the same as any one of the reference answers.",
        candidate_reference_answers="Reference answers",
    ),
    _judged(
        "eval_scoring_points_with_llm",
        {"scoring_points": _TEXTS, "ignore_order": _TRUE},
        "it has every one of the {n} required points, {order}.",
        scoring_points="Required points",
    ),
    _judged(
        "eval_partial_scoring_points_with_llm",
        {"scoring_points": _TEXTS, "count": _COUNT, "ignore_order": _TRUE},
        "it has at least {count} of the {n} points, {order}.",
        scoring_points="Points",
    ),
    _judged(
        "eval_reference_answer_and_scoring_points_with_llm",
        {"reference_answer": _NOT_EMPTY, "scoring_points": _TEXTS, "ignore_order": _TRUE},
        "it agrees with the reference answer and has every one of the {n} required points, {order}.",
        reference_answer="Reference answer",
        scoring_points="Required points",
    ),
    _judged(
        "eval_complex_math_formula_with_llm",
        {"formulas": _TEXT_OR_TEXTS, "ignore_order": _TRUE},
        "it gives all {n} of these formulas in LaTeX, {order}, each one mathematically equivalent; names of symbols "
        "count where the question fixes them.",
        formulas="Formulas",
    ),
    _judged(
        "eval_m3sciqa",
        {"reference_answer": _NOT_EMPTY, **_MODEL},
        "it has the same meaning as the reference answer. An answer that is only partly right is not.",
        reference_answer="Reference answer",
    ),
    _judged(
        "eval_scidqa",
        {"reference_answer": _NOT_EMPTY, **_MODEL},
        "relevance to the question, accuracy and completeness compared with the reference answer, and conciseness",
        graded=True,
        reference_answer="Reference answer",
    ),
    *(
        Function(name, "logical", {"eval_func_list": _FUNCTIONS, "eval_kwargs_list": _ARGUMENTS}, None)
        for name in ("eval_conjunction", "eval_disjunction")
    ),
    Function(
        "eval_negation",
        "logical",
        {
            "eval_func": Parameter(lambda v: isinstance(v, str), "the name of a function"),
            "eval_kwargs": Parameter(lambda v: isinstance(v, dict), "the arguments of the function"),
        },
        None,
    ),
)
FUNCTIONS: Final[Mapping[str, Function]] = {function.name: function for function in _ALL}


# -- logic ----------------------------------------------------------------------------------------------


def _spread(parts: tuple[Evaluator, ...], answer: Any) -> list[tuple[Evaluator, Any]] | None:
    """Each part with its item of the answer; None if the answer is a list of another length."""
    items = as_list(answer)
    items = [answer] if items is None else items
    return list(zip(parts, items, strict=True)) if len(items) == len(parts) else None


def _any_is(pairs: list[tuple[Evaluator, Any]], judge: Judge | None, wanted: bool) -> Outcome:
    """Whether one outcome is ``wanted``; it decides even if others have errors. Parts without a judge come first."""
    error = None
    for part, item in sorted(pairs, key=lambda pair: pair[0].is_subjective):
        outcome = part._score(item, judge)
        if outcome.passed is wanted:
            return Outcome(True)
        error = error or outcome.error
    return Outcome(False) if error is None else Outcome(None, error)


def _negated(outcome: Outcome) -> Outcome:
    return outcome if outcome.passed is None else Outcome(not outcome.passed)


def _conjunction(parts: tuple[Evaluator, ...], answer: Any, judge: Judge | None) -> Outcome:
    pairs = _spread(parts, answer)
    return Outcome(False) if pairs is None else _negated(_any_is(pairs, judge, False))


def _disjunction(parts: tuple[Evaluator, ...], answer: Any, judge: Judge | None) -> Outcome:
    # AirQA's listing 3 applies every function to one answer; a list has an item for each function (table 8).
    pairs = [(part, answer) for part in parts] if as_list(answer) is None else _spread(parts, answer)
    return Outcome(False) if pairs is None else _any_is(pairs, judge, True)


def _negation(parts: tuple[Evaluator, ...], answer: Any, judge: Judge | None) -> Outcome:
    return _negated(parts[0]._score(answer, judge))


_LOGIC: Final = {
    "eval_conjunction": _conjunction,
    "eval_disjunction": _disjunction,
    "eval_negation": _negation,
}


# -- reading --------------------------------------------------------------------------------------------


def read_evaluator(name: Any, arguments: Any, *, question: str | None = None, depth: int = 0) -> Evaluator:
    """The evaluator of an example. One that cannot be applied has a ``problem``.

    Args:
        question: that of the example, for a function of a judge whose arguments lack it.
    """
    function = FUNCTIONS.get(name) if isinstance(name, str) else None
    if function is None:
        near = difflib.get_close_matches(str(name), FUNCTIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FUNCTIONS)}."
        genre: Genre = "subjective" if str(name).endswith("_with_llm") else "objective"
        unknown = Function(str(name), genre, {}, None)
        return Evaluator(unknown, {}, problem=f"Unknown evaluation function {shown(name, 80)}: {hint}")
    try:
        if not isinstance(arguments, dict):
            raise InvalidRequest(
                f"The arguments of {name} are {shown(arguments, 80)}: they must be a JSON object."
            )
        if depth > MAX_NESTING:
            raise InvalidRequest(
                f"{name} is nested more than {MAX_NESTING} levels deep: nest fewer logical functions."
            )
        values, notes = _checked(function, arguments, question)
        if function.genre != "logical":
            return Evaluator(function, values, notes=tuple(notes))
        parts = _parts(function, values, question, depth)
    except InvalidRequest as error:
        return Evaluator(function, {}, problem=str(error))
    notes += [note for part in parts for note in part.notes]
    # A disjunction may pass by another part.
    problem = next((part.problem for part in parts if part.problem), None)
    if function.name == "eval_disjunction" and any(part.problem is None for part in parts):
        notes += [part.problem for part in parts if part.problem]
        problem = None
    return Evaluator(function, values, parts, tuple(notes), problem)


def _checked(
    function: Function, arguments: Mapping[str, Any], question: str | None
) -> tuple[dict[str, Any], list[str]]:
    """The values of the parameters, and notes. Raises InvalidRequest: one is missing or invalid."""
    notes = [
        f"{function.name} has no parameter {shown(name, 80)}, which was ignored"
        for name in arguments
        if name not in function.parameters
    ]
    values: dict[str, Any] = {}
    for name, parameter in function.parameters.items():
        if name in arguments:
            value = arguments[name]
        elif name == "question" and question:
            value = question
        elif parameter.default is _REQUIRED:
            others = [argument for argument in arguments if argument not in function.parameters]
            near = difflib.get_close_matches(name, others, n=1)
            hint = f" Is {shown(near[0], 80)} meant?" if near else ""
            raise InvalidRequest(f"{function.name} lacks {name}: give {parameter.expected}.{hint}")
        else:
            value = parameter.default
        if not parameter.accepts(value):
            converted = parameter.convert(value)
            if not parameter.accepts(converted):
                raise InvalidRequest(
                    f"{name} of {function.name} is {shown(value, 80)}: it must be {parameter.expected}."
                )
            notes.append(f"{name} of {function.name} was not {parameter.expected}, and was converted")
            value = converted
        elif parameter is _TEXT_OR_LIST and isinstance(value, list):
            notes.append(f"{name} of {function.name} was a list, and is compared as one")
        values[name] = value
    points, count = values.get("scoring_points"), values.get("count")
    if points is not None and count is not None and count >= len(points):
        raise InvalidRequest(
            f"count of {function.name} is {count}: it must be less than the number of scoring_points, {len(points)}."
        )
    return values, notes


def _parts(
    function: Function, values: Mapping[str, Any], question: str | None, depth: int
) -> tuple[Evaluator, ...]:
    if function.name == "eval_negation":
        pairs = [(values["eval_func"], values["eval_kwargs"])]
    else:
        names, arguments = values["eval_func_list"], values["eval_kwargs_list"]
        if len(names) != len(arguments):
            raise InvalidRequest(
                f"{function.name} has {len(names)} functions and {len(arguments)} sets of arguments: give one set for "
                "each function."
            )
        pairs = list(zip(names, arguments, strict=True))
    return tuple(
        read_evaluator(name, argument_set, question=question, depth=depth + 1) for name, argument_set in pairs
    )
