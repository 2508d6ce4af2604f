"""The finder: hooks run after a module's own code, whatever a program does with its imports."""

import importlib
import os
import sys
import tempfile
import threading
import zipfile

from recorder import check, forget
from guestscope_sources import apply, finder, phases

folder = tempfile.mkdtemp()
sys.path.insert(0, folder)
PROGRAM = "def f(x=1):\n    return x\nclass C:\n    @staticmethod\n    def s(): return 2\n    @classmethod\n    def c(cls): return cls\n"


def module(name, text=PROGRAM):
    path = os.path.join(folder, *name.split(".")[:-1])
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, name.split(".")[-1] + ".py"), "w") as file:
        file.write(text)


def watch(name, attribute="f", kind="user.function"):
    finder.watch([(name, attribute, kind)])


# A module that comes later, and its attributes of each kind.
module("later")
for attribute in ("f", "C.s", "C.c"):
    watch("later", attribute)
import later  # noqa: E402

check("told once", "t1 tell +later")
assert (later.f(3), later.C.s(), later.C.c()) == (3, 2, later.C)
check("each", "t1 begin p1 f", "t1 end p1", "t1 begin p2 C.s", "t1 end p2", "t1 begin p3 C.c", "t1 end p3")
assert type(later.__loader__).__name__ == "SourceFileLoader" and "exec_module" not in vars(later.__loader__)
assert type(vars(later.C)["s"]) is staticmethod and type(vars(later.C)["c"]) is classmethod

# One that is there already; a reload makes new functions.
module("there")
import there  # noqa: E402

watch("there")
forget()
there.f()
check("there", "t1 begin p4 f", "t1 end p4")
importlib.reload(there)
there.f()
check("reloaded, and wrapped once", "t1 begin p5 f", "t1 end p5")

# Half-imported: its rows come while its own code runs.
module("half", "import guestscope_sources.finder as s\ns.watch([('half', 'f', 'user.function')])\n" + PROGRAM)
import half  # noqa: E402

forget()
half.f()
assert finder._finder.waiting == {"half"}
check("not yet")
module("next_one")
import next_one  # noqa: E402, F401

half.f()
check("with the next import", "t1 tell +half", "t1 begin p6 f", "t1 end p6")

# A row that does not fit is reported once, and the other rows of the module work.
module("shape", PROGRAM + "__version__ = '9.9'\n")
for attribute in ("gone", "f", "also_gone", "may_be_gone?"):
    watch("shape", attribute)
import shape  # noqa: E402

shape.f()
missing = "t1 tell !shape 9.9: no gone"
check("a version that changed shape", missing, "t1 begin p7 f", "t1 end p7")

# A hook that raises is switched off.
module("raising")
watch("raising", "C")
import raising  # noqa: E402

assert raising.C.c() is raising.C
check("a hook that raises", "t1 tell !raising: C: TypeError")

# Errors of a module are its own, with its own traceback.
module("broken", "def inner():\n    raise KeyError('own')\ninner()\n")
watch("broken")
try:
    import broken  # noqa: F401
except KeyError as error:
    names, traceback = [], error.__traceback__
    while traceback:
        names.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    expected = ["<module>", "<module>", "inner"]
    assert sys.version_info < (3, 11) or names == expected, names
    assert "broken" not in sys.modules
else:
    sys.exit("the error is gone")
check("nothing is told of it")

# Other loaders: an archive; a module that puts another object in its place; none.
with zipfile.ZipFile(os.path.join(folder, "packed.zip"), "w") as archive:
    archive.writestr("zipped.py", PROGRAM)
sys.path.insert(0, os.path.join(folder, "packed.zip"))
watch("zipped")
import zipped  # noqa: E402

zipped.f()
assert type(zipped.__loader__).__name__ == "zipimporter" and zipped.__spec__.loader is zipped.__loader__
module("replaced", PROGRAM + "import sys, types\nmine = types.SimpleNamespace(f=f)\nsys.modules[__name__] = mine\n")
watch("replaced")
import replaced  # noqa: E402

assert type(replaced).__name__ == "SimpleNamespace" and replaced.f() == 1
watch("nowhere")
try:
    import nowhere  # noqa: F401
except ModuleNotFoundError as error:
    assert error.name == "nowhere"
forget()


# Finders of others: one that asks importlib again for each module, and a program that clears the list.
class Asking:
    asked = set()

    def find_spec(self, name, path=None, target=None):
        if name in self.asked:
            return None
        self.asked.add(name)
        try:
            return importlib.util.find_spec(name)
        finally:
            self.asked.discard(name)


for first in (True, False):
    name = "asked_%s" % first
    module(name)
    watch(name)
    sys.meta_path.insert(0 if first else 1, Asking())
    importlib.import_module(name).f()
    lines = [line for line in __import__("recorder").recorder.take() if "begin" in line]
    assert len(lines) == 1, lines
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Asking)]

before = list(sys.meta_path)
sys.meta_path = [finder for finder in before if type(finder).__name__ != "Finder"]
module("unseen")
watch("unseen")
import unseen  # noqa: E402

assert unseen.f() == 1
sys.meta_path = before
forget()

# Many threads at once import the same modules and others.
for number in range(20):
    module("many_%d" % number)
    watch("many_%d" % number)
failures = []


def import_all(start):
    for number in range(20):
        name = "many_%d" % ((start + number) % 20)
        try:
            assert importlib.import_module(name).f() == 1
        except BaseException as error:
            failures.append(error)


threads = [threading.Thread(target=import_all, args=(start,)) for start in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failures, failures
for number in range(20):
    assert apply.is_done("many_%d" % number, "f") and not hasattr(sys.modules["many_%d" % number].f.__wrapped__, "__wrapped__")
assert phases.label(sys) == "module"
