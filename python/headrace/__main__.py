"""Run the command `headrace` as `python -m headrace`."""

from headrace.cli import main

try:
    main()
finally:
    # `python -m` ends by SIGINT, whatever its exit code, if KeyboardInterrupt has left an `exec` of
    # text, as in the making of a dataclass. The next `exec` lets it forget (`run_eval_code_obj`).
    exec("")
