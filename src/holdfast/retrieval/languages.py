"""Languages by file name, and the grammars of those whose structure is understood.

One table of definitions serves all grammars: node types that two of them share mean the same.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from holdfast.errors import MissingExtra

if TYPE_CHECKING:
    from tree_sitter import Parser

TEXT = "text"

_LANGUAGES = {
    "python": ".py .pyi",
    "javascript": ".js .jsx .mjs .cjs",
    "typescript": ".ts .mts .cts",
    "tsx": ".tsx",
    "go": ".go",
    "rust": ".rs",
    "java": ".java",
    "c": ".c .h",
    "cpp": ".cc .cpp .cxx .hh .hpp .hxx",
    "csharp": ".cs",
    "ruby": ".rb .rake",
    "php": ".php",
    "markdown": ".md .markdown",
    "rst": ".rst",
    "html": ".html .htm",
    "css": ".css .scss .less",
    "json": ".json",
    "yaml": ".yaml .yml",
    "toml": ".toml",
    "sql": ".sql",
    "shell": ".sh .bash .zsh",
    "kotlin": ".kt .kts",
    "swift": ".swift",
    "scala": ".scala",
    "lua": ".lua",
    "protobuf": ".proto",
    "vue": ".vue",
    "xml": ".xml",
}

_BY_ENDING = {ending: language for language, endings in _LANGUAGES.items() for ending in endings.split()}
_BY_NAME = {"Makefile": "make", "Dockerfile": "dockerfile"}

_GRAMMARS = {
    "python": ("tree_sitter_python", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    "cpp": ("tree_sitter_cpp", "language"),
    "csharp": ("tree_sitter_c_sharp", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "php": ("tree_sitter_php", "language_php"),
}
"""The package of each grammar, and the function in it."""

CLASSES = {
    "class_definition": "class",
    "class_declaration": "class",
    "abstract_class_declaration": "class",
    "class_specifier": "class",
    "class": "class",
    "interface_declaration": "interface",
    "record_declaration": "class",
    "struct_declaration": "struct",
    "struct_specifier": "struct",
    "trait_declaration": "trait",
    "trait_item": "trait",
    "impl_item": "impl",
    "module": "module",
}
"""Definitions whose members are chunks of their own, and methods."""

NAMESPACES = {
    "namespace_definition": "namespace",
    "namespace_declaration": "namespace",
    "internal_module": "namespace",
    "mod_item": "mod",
}
"""The same, but a function in one is no method."""

FUNCTIONS = {
    "function_definition": "function",
    "function_declaration": "function",
    "generator_function_declaration": "function",
    "function_item": "function",
    "method_definition": "method",
    "method_declaration": "method",
    "constructor_declaration": "method",
    "method": "method",
    "singleton_method": "method",
    "lexical_declaration": "function",
    "variable_declaration": "function",
}

TYPES = {
    "enum_declaration": "enum",
    "enum_specifier": "enum",
    "enum_item": "enum",
    "struct_item": "struct",
    "union_item": "union",
    "union_specifier": "union",
    "type_definition": "type",
    "type_declaration": "type",
    "type_alias_declaration": "type",
    "macro_definition": "macro",
    "property_declaration": "property",
}

WRAPPERS = {
    "decorated_definition": "definition",
    "export_statement": "declaration",
    "template_declaration": None,
}
"""What may stand around a definition and belongs to it, and the field that holds it; None: the last."""

TRANSPARENT = frozenset(
    {
        "if_statement",
        "else_clause",
        "elif_clause",
        "try_statement",
        "except_clause",
        "finally_clause",
        "with_statement",
        "block",
        "preproc_if",
        "preproc_ifdef",
        "preproc_else",
        "preproc_elif",
        "linkage_specification",
        "declaration_list",
    }
)
"""What definitions may be inside of without being its members."""

LEADING = frozenset({"comment", "line_comment", "block_comment", "attribute_item"})
"""What belongs to the definition below it."""


def language_of(path: str) -> str:
    name = PurePosixPath(path)
    return _BY_NAME.get(name.name) or _BY_ENDING.get(name.suffix.lower(), TEXT)


def parser_of(language: str) -> Parser | None:
    """A parser, where the language's structure is understood."""
    return _parser(language) if language in _GRAMMARS else None


@lru_cache(maxsize=len(_GRAMMARS))
def _parser(language: str) -> Parser:
    package, function = _GRAMMARS[language]
    try:
        from tree_sitter import Language, Parser

        grammar = import_module(package)
    except ModuleNotFoundError:
        raise MissingExtra("Indexing", "retrieval") from None
    return Parser(Language(getattr(grammar, function)()))
