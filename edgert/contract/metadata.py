"""Values of ONNX metadata, as exporters write them: JSON, Python's own print, or lists with commas of lists.

`Metadata` reads key by key and refuses by key. Nothing is evaluated, everything is bounded, and a number is finite
unless the reader asks for bounds, where "-inf" is a word that exporters use.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from edgert.errors import ContractError
from edgert.tables import MAX_FILE_BYTES, MAX_MAGNITUDE, Table, is_number, read_json_value, show, type_name

_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,4})?")
_INFINITE: Final = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_PRINTED: Final = re.compile(
    r"""(?P<json>"(?:[^"\\]|\\.)*")|'(?P<text>[^'"\\]*)'|(?P<bracket>[()])|(?P<comma>,\s*(?=[\])]))"""
    r"""|(?<![\w.])(?P<inf>[+-]?(?:inf|Infinity))\b|\b(?P<word>None|True|False)\b"""
)
"""What Python prints otherwise than JSON: quotes, tuples, infinities, words, a comma before the end."""
_BRACKETS: Final = {"(": "[", ")": "]"}
_WORDS: Final = {"None": "null", "True": "true", "False": "false"}
_NOTHING: Final = ("", "None", "null", "[]", "()", "{}", '""')
_NONE: Final = (None, "", "None", "null")
"""How an item says that there is nothing."""


class Metadata:
    """The metadata of one model.

    Args:
        values: as the model holds them.
        model: how messages call the policy.

    Attributes:
        orders: lists of names; an object by just the names of one of them is read as a list in that order.
    """

    def __init__(self, values: Mapping[str, str], model: str) -> None:
        self.values = values
        self.model = model
        self.orders: tuple[Sequence[str], ...] = ()

    def where(self, key: str) -> str:
        """How messages call a value."""
        return f"metadata '{key}' of policy {self.model}"

    def fail(self, key: str, *, found: object, expected: object, hint: str = "") -> NoReturn:
        """Refuse a value."""
        raise ContractError(f"{self.where(key)} is wrong", found=found, expected=expected, hint=hint)

    def has(self, key: str) -> bool:
        """Whether there is a value that says something."""
        return self.values.get(key, "").strip() not in _NOTHING

    def value(self, key: str) -> Any:
        """What a value says: JSON, or what Python prints; else a list of texts and lists of texts, or one text.

        Infinities are texts.
        """
        text = self._text(key)
        if any(sign in text for sign in '{["('):
            refusal = None
            for form in (text, _as_json(text), _as_json(f"[{text.rstrip(', ')}]")):
                try:
                    return read_json_value(form, where=self.where(key))
                except ContractError as error:
                    refusal = refusal or error
            if text[0] in '{["(' and refusal is not None:
                raise refusal
        items = _split(text)
        return items[0] if len(items) == 1 else items

    def items(self, key: str) -> list[Any]:
        """A list; one item counts as a list of it."""
        value = self.value(key)
        if isinstance(value, dict):
            order = next((order for order in self.orders if set(order) == set(value)), None)
            value = value if order is None else [value[name] for name in order]
        return value if isinstance(value, list) else [value]

    def text(self, key: str) -> str:
        """One piece of text."""
        value = self.value(key)
        if not isinstance(value, str) or not value:
            self.fail(key, found=show(value), expected="text")
        return value

    def names(self, key: str) -> list[str]:
        """Names, each once."""
        names = _trimmed(self.texts(key))
        if not names or not all(names):
            self.fail(key, found=show(names), expected="a list of names")
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            self.fail(key, found=f"{', '.join(twice)} more than once", expected="each name once")
        return names

    def texts(self, key: str, length: int | None = None) -> list[str]:
        """Texts, some of which may be empty."""
        items = self.items(key)
        if length is not None and len(items) == length + 1:
            items = _trimmed(items)
        if not all(isinstance(item, str) for item in items):
            self.fail(key, found=f"{type_name(items)} {show(items)}", expected="a list of names")
        return items

    def numbers(self, key: str, length: int | None = None, what: str = "") -> list[float]:
        """Finite numbers; `what` says what there is one of each, "joint"."""
        numbers = [self._number(key, item) for item in _trimmed(self.items(key))]
        if length is not None and len(numbers) != length:
            one = f", one for each {what}" if what else ""
            self.fail(key, found=f"{len(numbers)} numbers", expected=f"{length}{one}")
        return numbers

    def scales(self, key: str, length: int) -> list[float | list[float]]:
        """One number or one list of numbers for each of `length` things; 1 where an item says nothing."""
        return [
            [self._number(key, part) for part in item]
            if isinstance(item, list)
            else 1.0
            if item in _NONE
            else self._number(key, item)
            for item in self._each(key, length)
        ]

    def bounds(self, key: str, length: int) -> list[list[float] | None]:
        """[low, high] for each of `length` things; None where there is none. A bound that is infinite is large."""
        pairs: list[list[float] | None] = []
        for item in self._each(key, length):
            if not isinstance(item, list) and item in _NONE:
                pairs.append(None)
                continue
            if not isinstance(item, list) or len(item) != 2:
                self.fail(key, found=show(item), expected="a low and a high bound for each")
            low, high = (self._bound(key, part) for part in item)
            if low > high:
                self.fail(key, found=show(item), expected="low and high with low <= high")
            pairs.append(None if low == -MAX_MAGNITUDE and high == MAX_MAGNITUDE else [low, high])
        return pairs

    def integers(self, key: str, length: int, hi: int) -> list[int]:
        """Whole numbers from 0 to `hi`, however they are printed: "5.000"; 0 where an item says nothing."""
        numbers = [0.0 if item in _NONE else self._number(key, item) for item in self._each(key, length)]
        if any(number != int(number) or not 0 <= number <= hi for number in numbers):
            self.fail(key, found=show(numbers), expected=f"whole numbers from 0 to {hi}")
        return [int(number) for number in numbers]

    def flags(self, key: str, length: int) -> list[bool]:
        """Yes or no for each, printed as "True" or "1.000"."""
        flags = [_flag(item) for item in self._each(key, length)]
        if None in flags:
            self.fail(key, found=show(self.items(key)), expected="true or false for each observation")
        return [flag is True for flag in flags]

    def table(self, key: str) -> Table:
        """A JSON object. One that was written as JSON text inside JSON is taken out of it."""
        value = self.value(key)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = read_json_value(value, where=self.where(key))
        if not isinstance(value, dict):
            self.fail(key, found=f"{type_name(value)} {show(value)}", expected="a JSON object")
        return Table(value, self.where(key))

    def _text(self, key: str) -> str:
        if key not in self.values:
            raise ContractError(f"{self.where(key)} is missing")
        text = self.values[key]
        if len(text) > MAX_FILE_BYTES:
            self.fail(key, found=f"{len(text)} characters", expected=f"at most {MAX_FILE_BYTES}")
        return text.strip()

    def _each(self, key: str, length: int) -> Sequence[Any]:
        items = self.items(key)
        # One list of numbers, "-1.0;1.0", is one item where one is wanted.
        if length == 1 and len(items) > 1 and not any(isinstance(item, list) for item in items):
            items = [items]
        if len(items) == length + 1:
            items = _trimmed(items)
        if len(items) != length:
            self.fail(key, found=f"{len(items)} items", expected=f"{length}, one for each observation")
        return items

    def _number(self, key: str, item: object) -> float:
        number = float(item) if isinstance(item, str) and _NUMBER.fullmatch(item) else item
        if not is_number(number) or abs(number) > MAX_MAGNITUDE:  # type: ignore[arg-type]
            self.fail(key, found=show(item), expected=f"finite numbers, at most {MAX_MAGNITUDE:g} in magnitude")
        return float(number)  # type: ignore[arg-type]

    def _bound(self, key: str, item: object) -> float:
        if isinstance(item, str) and _INFINITE.fullmatch(item):
            return -MAX_MAGNITUDE if item.startswith("-") else MAX_MAGNITUDE
        return self._number(key, item)


def _split(text: str) -> list[Any]:
    """Items between commas; an item with semicolons is a list."""
    return [[part.strip() for part in item.split(";")] if ";" in item else item.strip() for item in text.split(",")]


def _trimmed(items: list[Any]) -> list[Any]:
    """Items without an empty one after a last comma."""
    return items[:-1] if len(items) > 1 and items[-1] == "" else items


def _as_json(text: str) -> str:
    """What Python printed, as JSON."""

    def one(found: re.Match[str]) -> str:
        if found["text"] is not None:
            return f'"{found["text"]}"'
        if found["inf"] is not None:
            return f'"{found["inf"]}"'
        if found["word"] is not None:
            return _WORDS[found["word"]]
        return "" if found["comma"] is not None else found["json"] or _BRACKETS[found["bracket"]]

    return _PRINTED.sub(one, text)


def _flag(item: object) -> bool | None:
    word = item.lower() if isinstance(item, str) else item
    if isinstance(word, str) and _NUMBER.fullmatch(word):
        word = float(word)
    return True if word in ("true", 1.0) else False if word in ("false", 0.0) else None
