"""Automatic marks: requests and phases of unmodified programs.

`start` installs a finder before the others. Only when the program imports a module that the table names are
that module's hooks loaded; they wrap the attributes in the table. See table.py, and phases.py for the hooks'
functions.
"""


def start(environment):
    """Installs the hooks once in a process; further calls do nothing."""
    from . import finder, table

    rows = table.rows() if environment.get("GUESTSCOPE_PYTHON") else []
    marks = [mark.partition(":") for mark in environment.get("GUESTSCOPE_MARK", "").split(",")]
    rows += [(module.strip(), function.strip(), "user.function") for module, _, function in marks if module and function]
    finder.install(rows)
