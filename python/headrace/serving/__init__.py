"""A local web application over a folder of results (`headrace serve`, docs/serve.md).

`listening.py` checks the address and opens the socket, `access.py` lets in only who has the token
or the password, `folders.py` finds results folders, `application.py` has the pages, `server.py`
runs it all until it is stopped. Pages share templates and style with the report; they ask no other
machine for anything.
"""

from headrace.serving.listening import ServeOptions
from headrace.serving.server import serve_results

__all__ = ["ServeOptions", "serve_results"]
