"""Copies of the samples with a fault planted in each, for tests and for trying ftprof out.

    python -m ftprof.samples.variants [NAME ... | --list]

They are built into the cache and shared by every later call; weights that are the same are stored once.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ftprof.profiler.errors import FtprofError
from ftprof.samples.cache import build_once, cache_root
from ftprof.samples.demo import BASES, HERE
from ftprof.samples.prepare import base_directory, base_weights
from ftprof.samples.progress import show_progress
from ftprof.samples.recipes import RECIPES, CallValue, Recipe

# Raise it when the way variants are built changes, so that none built the old way is taken for a new one.
LAYOUT = 3


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What `ftprof diagnose` is given; `call` and `base` are None where the variant does without."""

    name: str
    model: Path
    base: Path | None
    call: Path | None
    data: Path


def build(name: str, root: Path | None = None) -> Variant:
    """The variant `name`, built below `root` (default: the cache) unless it is there.

    The first one of a kind takes about a minute. Raises FtprofError: unknown name, or what `base_weights` raises.
    """
    if name not in RECIPES:
        raise FtprofError(f"there is no variant called {name!r}", f"choose one of: {', '.join(RECIPES)}", 2)
    recipe = RECIPES[name]
    folder = (root or cache_root() / "variants") / _stamp(recipe)
    made = build_once(folder / name, partial(_fill, recipe, folder))
    call, long_data = made / "call.toml", made / "data.jsonl"
    return Variant(
        name=name,
        model=HERE / recipe.sample if recipe.unmerged_on_bf16 else made,
        base=made if recipe.unmerged_on_bf16 else None,
        call=call if call.exists() else None,
        data=long_data if recipe.long_data else HERE / "tickets" / "test.jsonl",
    )


def _stamp(recipe: Recipe) -> str:
    """Changes with the adapter, so that a retrained sample gets fresh variants."""
    weights = (HERE / recipe.sample / "adapter_model.safetensors").read_bytes()
    kind = BASES[recipe.sample]
    return f"{base_directory(kind).name}-{LAYOUT}-{hashlib.sha256(weights).hexdigest()[:8]}"


def _fill(recipe: Recipe, folder: Path, out: Path) -> None:
    from ftprof.samples import merged

    if recipe.unmerged_on_bf16:
        merged.save_base_bf16(recipe.sample, out)
    else:
        save = partial(merged.save_merged, recipe.sample, dtype=recipe.dtype)
        merged.link_files(build_once(folder / f"merged-{recipe.dtype}", save), out)
    if recipe.no_cache_in:
        merged.set_in_json(out / recipe.no_cache_in, "use_cache", False)
    if recipe.call:
        (out / "call.toml").write_text("".join(_toml_line(*item) for item in recipe.call.items()), encoding="utf-8")
    if recipe.long_data:
        _write_long_data(recipe, out)


def _write_long_data(recipe: Recipe, out: Path) -> None:
    from ftprof.samples.load import tokenizer_of
    from ftprof.samples.long_rows import write_long_rows

    write_long_rows(tokenizer_of(base_weights(BASES[recipe.sample])), out / "data.jsonl")


def _toml_line(key: str, value: CallValue) -> str:
    if isinstance(value, bool):
        return f"{key} = {str(value).lower()}\n"
    return f"{key} = {value}\n" if isinstance(value, int) else f'{key} = "{value}"\n'


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds the named variants, all of them by default, and prints how to diagnose each."""
    parser = argparse.ArgumentParser(prog="python -m ftprof.samples.variants", description="Build planted variants.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="variants to build (all)")
    parser.add_argument("--list", action="store_true", help="show the variants and what is planted in each")
    options = parser.parse_args(arguments)
    if options.list:
        for name, recipe in RECIPES.items():
            print(f"{name:<27} {recipe.planted}")
        return 0
    try:
        for name in options.names or RECIPES:
            print(_command(_build_aloud(name)), flush=True)
    except FtprofError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


def _build_aloud(name: str) -> Variant:
    if name in RECIPES:
        with show_progress(BASES[RECIPES[name].sample]) as progress:
            base_weights(BASES[RECIPES[name].sample], progress)
    return build(name)


def _command(variant: Variant) -> str:
    base = f" --base {variant.base}" if variant.base else ""
    call = f" --call {variant.call}" if variant.call else ""
    return f"ftprof diagnose {variant.model}{base} --data {variant.data}{call}"


if __name__ == "__main__":
    sys.exit(main())
