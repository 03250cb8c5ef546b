"""For mkdocs: the pages that are no files of docs/, which are the commands, the examples and two pages of the root."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from feddag.cli.commands import SUMMARIES, loaded
from mkdocs.structure.files import File, Files

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
    introduction = "`feddag COMMAND --help` says the same. A mistake of the user's ends a command with exit code 2."
    overview = "\n".join(["| command | what it does |", "|---|---|", *listed])
    return "\n\n".join(["# Commands", introduction, overview, *map(_command, leaves)]) + "\n"


def _command(path: str) -> str:
    command = loaded(path)
    paragraphs = [" ".join(each.split()) for each in command.help.split("\n\n")]
    texts = [_escaped(each) for each in paragraphs if not each.startswith("Example: ")]
    examples = [f"$ {each.removeprefix('Example: ')}" for each in paragraphs if each.startswith("Example: ")]
    shown = ["```console", *examples, "```"]
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if parameter.name != "help":
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or "", []).append(parameter)
    return "\n\n".join([f"## feddag {path}", *texts, "\n".join(shown), *_tables(panels.items())])


def _tables(panels: Iterable[tuple[str, list[Any]]]) -> Iterable[str]:
    for panel, parameters in panels:
        if panel:
            yield f"**{panel}**"
        rows = [f"| {_name(each)} | {_help(each)} |" for each in parameters]
        yield "\n".join(["| option | says |", "|---|---|", *rows])


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    choices = getattr(parameter.type, "choices", None)
    value = "" if parameter.is_flag else parameter.metavar or ("|".join(map(str, choices)) if choices else "VALUE")
    return f"`{' '.join([parameter.opts[0], value]).strip()}`".replace("|", "\\|")


def _help(parameter: Any) -> str:
    default = getattr(parameter, "show_default", None)
    told = f" Default: {default}." if isinstance(default, str) else ""
    return _escaped(parameter.help or "") + told


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
