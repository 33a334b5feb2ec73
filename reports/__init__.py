"""Views of one audit document: terminal, HTML, Markdown; they measure nothing."""
