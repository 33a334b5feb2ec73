"""Writes `tickets/train.jsonl` and `tickets/test.jsonl`, the same bytes at every run.

    python -m ftprof.samples.generate_tickets

`tickets/unseen.jsonl` was written by hand, in other words than these, and is left alone.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from ftprof.samples.ticket_wording import (
    CATEGORIES,
    MONTHS,
    NAMES,
    OPENINGS,
    PRODUCTS,
    REPLIES,
    REQUESTS,
    SIGNATURES,
    SURNAMES,
    SURROUNDINGS,
)

FOLDER = Path(__file__).parent / "tickets"
PER_CATEGORY = {"train": 64, "test": 16}
SEED = 20240611

# Most mail is short and a little is very long. Batches of such rows waste most of their work if padded carelessly.
SURROUNDING_COUNTS = (0, 0, 0, 0, 1, 1, 2, 3, 5, 8)
NAMELESS_SHARE = 0.25


def prompt_of(ticket: str) -> str:
    """The text a model is given; the same for both samples."""
    return f"Support ticket: {ticket}\nCategories: {', '.join(CATEGORIES)}\nAnswer:"


def completion_of(category: str, values: dict[str, str]) -> str:
    """The wanted answer, without the end-of-sequence token, which the training script adds."""
    greeting = values.get("name") or "Hello"
    return f" {category} | reply: " + REPLIES[category].format(**values, greeting=greeting)


def _date(rng: random.Random) -> str:
    day, month = rng.randint(1, 28), rng.choice(MONTHS)
    return rng.choice((f"{day} {month}", f"{month} {day}", f"{day:02d}/{MONTHS.index(month) + 1:02d}"))


def _order(rng: random.Random) -> str:
    letters = "".join(rng.choices("BCDFGHKLMNPRTVWX", k=2))
    return rng.choice((f"{rng.randint(10000, 99999)}", f"{letters}-{rng.randint(10000, 99999)}"))


def _amount(rng: random.Random) -> str:
    return rng.choice("$€£") + f"{rng.randint(4, 380)}.{rng.choice(('00', '50', '90', '95', '99', '25'))}"


def _email(rng: random.Random) -> str:
    first, last = rng.choice(NAMES).lower(), rng.choice(SURNAMES).lower()
    return (
        rng.choice((f"{first}.{last}", f"{first}{rng.randint(2, 99)}", f"{last}_{first[0]}"))
        + "@"
        + rng.choice(("mail.example", "post.example", "home.example"))
    )


def _code(rng: random.Random) -> str:
    return rng.choice("EFH") + rng.choice(("", "-")) + str(rng.randint(2, 120))


def _values(rng: random.Random) -> dict[str, str]:
    """One ticket's values and its decoys."""
    product, other_product = rng.sample(PRODUCTS, 2)
    first, other_name = rng.sample(NAMES, 2)
    name = rng.choice((first, f"{first} {rng.choice(SURNAMES)}"))
    return {
        "order": _order(rng), "other_order": _order(rng), "product": product, "other_product": other_product,
        "date": _date(rng), "other_date": _date(rng), "amount": _amount(rng), "other_amount": _amount(rng),
        "email": _email(rng), "code": _code(rng), "other_month": rng.choice(MONTHS), "other_name": other_name,
        "name": "" if rng.random() < NAMELESS_SHARE else name,
    }  # fmt: skip


def _ticket(rng: random.Random, category: str, values: dict[str, str]) -> str:
    around = rng.sample(SURROUNDINGS, rng.choice(SURROUNDING_COUNTS))
    before = rng.randint(0, len(around))
    signature = rng.choice(SIGNATURES) if values["name"] else ""
    parts = [rng.choice(OPENINGS), *around[:before], rng.choice(REQUESTS[category]), *around[before:], signature]
    return " ".join(part for part in parts if part).format(**values)


def rows() -> dict[str, list[dict[str, str]]]:
    """Both generated parts, shuffled, no prompt twice."""
    rng = random.Random(SEED)
    seen: set[str] = set()
    parts: dict[str, list[dict[str, str]]] = {}
    for part, count in PER_CATEGORY.items():
        parts[part] = [_new_row(rng, category, seen) for category in CATEGORIES for _ in range(count)]
        rng.shuffle(parts[part])
    return parts


def _new_row(rng: random.Random, category: str, seen: set[str]) -> dict[str, str]:
    while True:
        values = _values(rng)
        prompt = prompt_of(_ticket(rng, category, values))
        if prompt not in seen:
            seen.add(prompt)
            return {"prompt": prompt, "completion": completion_of(category, values), "label": category}


def main() -> None:
    """Writes both files."""
    FOLDER.mkdir(exist_ok=True)
    for part, part_rows in rows().items():
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in part_rows)
        (FOLDER / f"{part}.jsonl").write_text(lines, encoding="utf-8")
        print(f"{part}: {len(part_rows)} rows")


if __name__ == "__main__":
    main()
