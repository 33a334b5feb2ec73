"""Make a matplotlib SVG fit to stand inside a page: no style, unique ids, colours of the page, a name for screen readers.

matplotlib writes a style rule for the whole page, `style` attributes that a strict content security policy blocks, and
the same ids in every figure. Here each declaration becomes a presentation attribute, each id gets the chart's prefix,
and only elements and attributes of a short list may pass.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}"
ELEMENTS = {"svg", "g", "path", "text", "tspan", "defs", "clipPath", "rect", "use", "pattern"}
DROPPED = {"metadata", "style"}
GEOMETRY = {"d", "x", "y", "width", "height", "transform", "viewBox", "patternUnits", "patternTransform"}
PAINT = {
    *("fill", "fill-opacity", "fill-rule", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray"),
    *("stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "stroke-miterlimit", "opacity"),
    *("font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "clip-path"),
}
FONT = re.compile(r"^(?P<style>italic |oblique )?(?P<weight>bold |\d+ )?(?P<size>[\d.]+)px\b")
REFERENCE = re.compile(r"url\(#([^)]+)\)")
NUMBER = re.compile(r"-?\d+\.\d+")


def embed(svg: str, prefix: str, title: str, description: str, classes: dict[str, str]) -> str:
    """The inline form of a matplotlib SVG.

    `prefix` is set before every id. `classes` maps colours ("#rrggbb") to CSS classes by which the page may repaint
    them; class "ink" becomes `currentColor`. ValueError for an element or attribute that is not on the list.
    """
    root = ElementTree.fromstring(svg)
    _rewrite(root, prefix, {colour.lower(): name for colour, name in classes.items()})
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    label = {"title": f"{prefix}-title", "desc": f"{prefix}-desc"}
    root.attrib = {
        "xmlns": SVG[1:-1],
        **root.attrib,
        "role": "img",
        "aria-labelledby": " ".join(label.values()),
        "focusable": "false",
        "width": "100%",
        "preserveAspectRatio": "xMidYMid meet",
        "font-family": "sans-serif",
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(tag, {"id": label[tag]})
        element.text = text
        root.insert(position, element)
    return ElementTree.tostring(root, encoding="unicode")


def _rewrite(element: ElementTree.Element, prefix: str, classes: dict[str, str]) -> None:
    element.tag = element.tag.removeprefix(SVG)
    if element.tag not in ELEMENTS:
        raise ValueError(f"an SVG element that is not allowed: {element.tag}")
    element.attrib = _attributes(element, prefix, classes)
    if element.tag not in {"text", "tspan"}:
        element.text = None
    element.tail = None
    for child in list(element):
        if child.tag.removeprefix(SVG) in DROPPED:
            element.remove(child)
        else:
            _rewrite(child, prefix, classes)
    _unwrap_empty(element)


def _unwrap_empty(element: ElementTree.Element) -> None:
    for child in list(element):
        if child.tag in {"defs", "g"} and not len(child):
            element.remove(child)


def _attributes(element: ElementTree.Element, prefix: str, classes: dict[str, str]) -> dict[str, str]:
    given = dict(element.attrib)
    declared = _declarations(given.pop("style", ""))
    kept: dict[str, str] = {}
    for name, value in {**given, **declared}.items():
        if name == "id":
            kept["id"] = f"{prefix}-{value}"
        elif name == XLINK + "href" or name == "href":
            kept["href"] = f"#{prefix}-{_local(value)}"
        elif name in GEOMETRY:
            kept[name] = NUMBER.sub(_short, value)
        elif name in PAINT:
            kept[name] = REFERENCE.sub(rf"url(#{prefix}-\1)", value)
        elif name not in {"version", "font-family", "font-variant", "font-stretch"}:
            raise ValueError(f"an SVG attribute that is not allowed: {name}")
    return _painted(kept, classes)


def _local(reference: str) -> str:
    if not reference.startswith("#"):
        raise ValueError(f"an SVG reference that leaves the chart: {reference}")
    return reference[1:]


def _declarations(style: str) -> dict[str, str]:
    pairs = (part.partition(":") for part in style.split(";") if part.strip())
    declared = {name.strip(): value.strip() for name, _, value in pairs}
    # matplotlib writes the `font` shorthand, which has no presentation attribute.
    found = FONT.match(declared.pop("font", ""))
    if found:
        declared["font-size"] = found["size"]
        if found["weight"]:
            declared["font-weight"] = found["weight"].strip()
    return declared


def _short(number: re.Match[str]) -> str:
    # A hundredth of a point is finer than any screen shows.
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _painted(attributes: dict[str, str], classes: dict[str, str]) -> dict[str, str]:
    names = []
    for paint in ("fill", "stroke"):
        name = classes.get(attributes.get(paint, "").lower())
        if name == "ink":
            attributes[paint] = "currentColor"
        elif name:
            names.append(f"{paint}-{name}")
    if names:
        attributes["class"] = " ".join(names)
    return attributes
