"""Sphinx's configuration of the documentation site. ``build.py`` prepares the pages and runs Sphinx."""

from __future__ import annotations

from scholarbase import __version__ as release

project = "ScholarBase"
author = "the ScholarBase contributors"
html_title = f"ScholarBase {release}"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

myst_heading_anchors = 6  # the anchors that GitHub gives headings
suppress_warnings = ["misc.highlighting_failure"]  # blocks of csv, and JSON with lines left out

toc_object_entries = False  # every page has a copy of the tree: with these, building takes twice as long
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "inherited-members": "Exception,BaseException,Struct,BaseModel"}
python_maximum_signature_line_length = 88
python_display_short_literal_types = True

html_theme = "furo"
html_favicon = "../scholarbase/api/explorer/files/icon.svg"
html_copy_source = False
html_show_copyright = False
# No icons or fonts of other hosts.
html_theme_options = {"footer_icons": []}
