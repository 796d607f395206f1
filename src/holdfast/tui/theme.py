"""The inbox's own two palettes: one quiet colour for where you are, and few others, each with one meaning."""

from __future__ import annotations

from textual.theme import Theme

MUTED = "$foreground 60%"
"""For what stands beside the matter itself. Inside a text, `$text-muted` has nothing to blend with."""

DARK = Theme(
    name="holdfast-dark",
    dark=True,
    primary="#7fb0d6",
    secondary="#8b95a7",
    accent="#d8b26e",
    success="#93c08a",
    warning="#d8b26e",
    error="#e08a80",
    foreground="#d9dde4",
    background="#14171c",
    surface="#1a1e25",
    panel="#232933",
    variables={
        "footer-background": "#14171c",
        "footer-key-foreground": "#7fb0d6",
        "footer-description-foreground": "#8b95a7",
        "block-cursor-background": "#2a3544",
        "block-cursor-foreground": "#f2f4f7",
        "block-cursor-text-style": "none",
        "block-cursor-blurred-background": "#20262f",
        "border": "#7fb0d6",
        "border-blurred": "#2f3744",
    },
)

LIGHT = Theme(
    name="holdfast-light",
    dark=False,
    primary="#2a6496",
    secondary="#6a7280",
    accent="#8a5a00",
    success="#2f7034",
    warning="#8a5a00",
    error="#a93226",
    foreground="#23272e",
    background="#fcfbf8",
    surface="#f5f3ee",
    panel="#e9e6df",
    variables={
        "footer-background": "#fcfbf8",
        "footer-key-foreground": "#2a6496",
        "footer-description-foreground": "#6a7280",
        "block-cursor-background": "#dde8f1",
        "block-cursor-foreground": "#14171c",
        "block-cursor-text-style": "none",
        "block-cursor-blurred-background": "#efece5",
        "border": "#2a6496",
        "border-blurred": "#d3cec3",
    },
)
