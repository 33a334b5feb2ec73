"""One JSON object of a data file to one `Row`, for the shapes that fine-tuning data comes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ftprof.profiler.workload import Row

Message = dict[str, str]
Render = Callable[[list[Message]], str]
"""From messages (role, content) to the prompt that asks for the next turn: a tokenizer's chat template."""
Fields = Mapping[str, object]

USABLE = "prompt, messages, instruction, question, text"


class RowFault(Exception):
    """What is wrong with one row, without the line number: the reader of the file knows that."""


def plain_render(messages: list[Message]) -> str:
    """One "role: content" line a message and an open line for the answer, for models without a chat template."""
    return "".join(f"{message['role']}: {message['content']}\n" for message in messages) + "assistant:"


def to_row(fields: object, render: Render, labels: Sequence[str]) -> tuple[Row, str]:
    """The row that one JSON value holds, and the name of its shape. Raises RowFault."""
    if not isinstance(fields, dict):
        raise RowFault(f"expected a JSON object, got {_kind(fields)}")
    for key, read in _SHAPES.items():
        if fields.get(key) is not None:
            prompt, completion = read(fields, render)
            shape = "messages" if isinstance(fields[key], list) else key
            return Row(prompt=_filled(prompt, key), completion=completion, label=_label(fields, labels)), shape
    seen = ", ".join(list(fields)[:8]) or "none"
    raise RowFault(f"no usable key among {seen}; one of {USABLE} is needed")


def _prompt(fields: Fields, render: Render) -> tuple[str, str | None]:
    if not isinstance(fields["prompt"], list):
        return _text(fields, "prompt"), _optional(fields, "completion")
    prompt = render(_messages(fields["prompt"], "prompt"))
    if not isinstance(fields.get("completion"), list):
        return prompt, _optional(fields, "completion")
    answers = _messages(fields["completion"], "completion")
    return prompt, _answer("\n".join(message["content"] for message in answers), render)


def _dialogue(fields: Fields, render: Render) -> tuple[str, str | None]:
    messages = _messages(fields["messages"], "messages")
    if messages[-1]["role"] != "assistant":
        return render(messages), None
    if len(messages) == 1:
        raise RowFault("'messages' has no turn before the assistant's")
    return render(messages[:-1]), _answer(messages[-1]["content"], render)


def _answer(text: str, render: Render) -> str | None:
    # A template ends where the answer starts; the plain line "assistant:" leaves the space to the answer, as words do.
    return (" " + text if render is plain_render else text) if text else None


def _instruction(fields: Fields, render: Render) -> tuple[str, str | None]:
    given = _optional(fields, "input")
    instruction = _text(fields, "instruction")
    return f"{instruction}\n{given}\n" if given else f"{instruction}\n", _optional(fields, "output")


def _question(fields: Fields, render: Render) -> tuple[str, str | None]:
    return f"{_text(fields, 'question')}\n", _optional(fields, "answer")


def _plain(fields: Fields, render: Render) -> tuple[str, str | None]:
    return _text(fields, "text"), _optional(fields, "completion")


_SHAPES: dict[str, Callable[[Fields, Render], tuple[str, str | None]]] = {
    "prompt": _prompt,
    "messages": _dialogue,
    "instruction": _instruction,
    "question": _question,
    "text": _plain,
}
"""By the key that gives a shape away, in the order in which they are looked for."""


def _text(fields: Fields, key: str) -> str:
    found = fields[key]
    if not isinstance(found, str):
        raise RowFault(f"'{key}' must be a string, not {_kind(found)}")
    try:
        found.encode()
    except UnicodeEncodeError as error:
        raise RowFault(f"'{key}' holds half a surrogate pair, which is no text") from error
    return found


def _optional(fields: Fields, key: str) -> str | None:
    return _text(fields, key) or None if fields.get(key) is not None else None


def _filled(prompt: str, key: str) -> str:
    if not prompt.strip():
        raise RowFault(f"'{key}' is empty")
    return prompt


def _messages(found: object, key: str) -> list[Message]:
    if not isinstance(found, list) or not found:
        raise RowFault(f"'{key}' must be a list of messages, not {_kind(found)}")
    return [_message(message, key) for message in found]


def _message(found: object, key: str) -> Message:
    if not isinstance(found, dict) or found.get("role") is None or found.get("content") is None:
        raise RowFault(f"each of '{key}' must be an object with role and content")
    return {"role": _text(found, "role"), "content": _content(found)}


def _content(message: Fields) -> str:
    """A message's text; newer data splits it into parts."""
    parts = message["content"]
    if not isinstance(parts, list):
        return _text(message, "content")
    if not all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts):
        raise RowFault("'content' has parts that are not text")
    return "".join(_text(part, "text") for part in parts)


def _label(fields: Fields, labels: Sequence[str]) -> str | None:
    """The label's name; a number stands for the model's label of that number."""
    found = fields.get("label")
    if found is None:
        return None
    if isinstance(found, str):
        return _optional(fields, "label")
    if not isinstance(found, int) or isinstance(found, bool):
        raise RowFault(f"'label' must be a string or a whole number, not {_kind(found)}")
    if labels and not 0 <= found < len(labels):
        raise RowFault(f"'label' is {found}, but the model has {len(labels)} labels (0 to {len(labels) - 1})")
    return labels[found] if labels else str(found)


def _kind(value: object) -> str:
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), "null")
