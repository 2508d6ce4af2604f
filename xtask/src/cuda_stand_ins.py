"""Stand-ins for CUDA's libraries, with which PyPI's torch is linked: 3 GB of which a CPU calls nothing.

`cuda_stand_ins.py SITE_PACKAGES`: each library that torch needs and nobody brings becomes a small one beside
it, with the names that the loader looks for. Each function ends the program, so that a call would not go
unseen.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile

PACKAGES = sys.argv[1]
TORCH = os.path.join(PACKAGES, "torch", "lib")
#: Prefixes of the names of a library's functions, for those without a version that names the library.
PREFIXES = {
    "libcublas.so": "cublas",
    "libcublasLt.so": "cublasLt",
    "libcudnn.so": "cudnn",
    "libcusparse.so": "cusparse",
    "libcusparseLt.so": "cusparseLt",
    "libcufft.so": "cufft",
    "libcufile.so": "cuFile",
    "libnccl.so": "p?nccl",
    "libcurand.so": "curand",
    "libnvrtc.so": "nvrtc",
    "libnvshmem_host.so": "nvshmem",
    "libcusolver.so": "cusolver",
}


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needed():
    """Missing libraries of NVIDIA, and the files that need them."""
    there = set(os.listdir(TORCH))
    for _, _, files in os.walk(os.path.join(PACKAGES, "nvidia")):
        there.update(files)
    libraries, users = set(), []
    for name in os.listdir(TORCH):
        path = os.path.join(TORCH, name)
        if ".so" not in name or not os.path.isfile(path):
            continue
        wants = re.findall(r"NEEDED.*\[(lib(?:cu|nccl|nv)[^]]*)\]", said("readelf", "-d", path))
        missing = set(wants) - there
        libraries |= missing
        users += [path] if missing else []
    return libraries, users


def owner(symbol, libraries):
    fits = [(len(prefix), begin) for begin, prefix in PREFIXES.items() if re.match("_*" + prefix, symbol, re.I)]
    begin = max(fits, default=(0, None))[1]
    return begin and next((library for library in libraries if library.startswith(begin)), None)


def functions(libraries, users):
    """The functions that torch needs from each library and version."""
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for path in users:
        for line in said("nm", "-D", "--undefined-only", path).splitlines():
            match = re.match(r"\s+[UwVv] ([^@\s]+)(?:@+(\S+))?", line)
            if match is None:
                continue
            symbol, version = match.groups()
            library = version if version in libraries else owner(symbol, libraries)
            if library:
                found[library][version or ""].add(symbol)
    return found


def make(library, versions, folder):
    source, script = os.path.join(folder, "a.c"), os.path.join(folder, "a.map")
    with open(source, "w") as file:
        file.write("int stand_in;\n")
        for symbol in sorted(set().union(*versions.values())):
            file.write("void %s(void) { __builtin_trap(); }\n" % symbol)
    named = {version: symbols for version, symbols in versions.items() if version}
    with open(script, "w") as file:
        for version, symbols in named.items():
            file.write('%s { global: %s };\n' % (version, " ".join(symbol + ";" for symbol in sorted(symbols))))
    command = ["cc", "-shared", "-fPIC", "-O1", "-fno-builtin", "-w", "-Wl,-soname," + library]
    command += ["-Wl,--version-script=" + script] if named else []
    subprocess.run(command + ["-o", os.path.join(TORCH, library), source], check=True)


with tempfile.TemporaryDirectory() as folder:
    libraries, users = needed()
    wanted = functions(libraries, users)
    for library in sorted(libraries):
        make(library, wanted[library], folder)
    print("%d libraries" % len(libraries))
