"""Automatic marks: requests and phases of unmodified programs.

`start` puts a finder in front of the imports. Until the program imports a module that the table names, nothing else is
loaded; then the module's hooks are, and they wrap what the table says. See table.py, and phases.py for what hooks use.
"""


def start(environment):
    """Installs the hooks once in a process; further calls do nothing."""
    from . import finder, table

    rows = table.rows() if environment.get("GUESTSCOPE_PYTHON") else []
    marks = [mark.partition(":") for mark in environment.get("GUESTSCOPE_MARK", "").split(",")]
    rows += [(module.strip(), function.strip(), "user.function") for module, _, function in marks if module and function]
    finder.install(rows)
