"""For mkdocs: the pages that are no files of docs/, which are the commands, the examples and two pages of the root."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from typer import Context

from feddag.cli.commands import SUMMARIES, loaded

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "cli.md", content=_commands()))
    for path in (ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "examples").rglob("*"))):
        place = path.relative_to(ROOT)
        if path.is_file() and not {"run", "__pycache__"} & set(place.parts):
            files.append(File(place.as_posix(), str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """In the repository the pages are in docs/, on the site beside those of its root."""
    if page.file.src_uri.startswith("examples/"):
        return markdown.replace("](../../docs/", "](../../")
    return markdown.replace("](docs/", "](").replace("](../", "](")


def _commands() -> str:
    """The page of all commands, as their --help has it."""
    leaves = [path for path in SUMMARIES if not any(other.startswith(f"{path} ") for other in SUMMARIES)]
    listed = [f"| [`feddag {path}`](#feddag-{path.replace(' ', '-')}) | {SUMMARIES[path]} |" for path in leaves]
    introduction = "`feddag COMMAND --help` says the same. A mistake in the input ends a command with exit code 2."
    overview = "\n".join(["| command | what it does |", "|---|---|", *listed])
    return "\n\n".join(["# Commands", introduction, overview, *map(_command, leaves)]) + "\n"


def _command(path: str) -> str:
    command = loaded(path)
    paragraphs = [" ".join(each.split()) for each in command.help.split("\n\n")]
    texts = [_escaped(each) for each in paragraphs if not each.startswith("Example: ")]
    examples = [f"$ {each.removeprefix('Example: ')}" for each in paragraphs if each.startswith("Example: ")]
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.params:
        if record := parameter.get_help_record(Context(command)):
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or "", []).append(record)
    return "\n\n".join([f"## feddag {path}", *texts, "\n".join(["```console", *examples, "```"]), *_tables(panels)])


def _tables(panels: dict[str, list[tuple[str, str]]]) -> Iterable[str]:
    for panel, records in panels.items():
        if panel:
            yield f"**{panel}**"
        rows = [f"| `{_in_cell(name)}` | {_in_cell(_escaped(text))} |" for name, text in records]
        yield "\n".join(["| option | says |", "|---|---|", *rows])


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")
