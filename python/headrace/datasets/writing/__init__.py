"""Write tables of events as ROOT files with controlled positions of every basket and page.

uproot can write ROOT files too, with one basket per branch and call, in the order of the calls. A
storage benchmark must choose basket sizes, clusters and the position of every basket, so this
package writes baskets and pages itself. The rest of the file (header, directory, metadata) is
written by internal classes of uproot's writer, in `rootfile.py`, `ttree.py` and `rntuple.py` only.
They are not part of uproot's public interface: pyproject.toml pins uproot to one minor version.
"""
