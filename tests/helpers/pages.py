"""What a page holds: everything that it would load, what could run, what is open at its end."""

from html.parser import HTMLParser

VOID = ("meta", "br", "path", "circle", "rect", "input", "link")
"""Elements that nothing closes."""


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.scripts: list[str] = []
        self.dangers: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("iframe", "object", "embed", "img", "base", "form", "foreignobject"):
            self.dangers.append(tag)
        for name, value in ((name, value or "") for name, value in attrs):
            is_link = name in ("href", "src", "xlink:href", "action")
            if is_link and value[:1] != "#":
                self.loads.append(value)
            if name.startswith("on") or (is_link and not value.startswith(("#", "http", "report"))):
                self.dangers.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag
