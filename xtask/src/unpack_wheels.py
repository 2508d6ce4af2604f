"""Unpacks chosen members of wheels: unpack_wheels.py TARGET MEMBER... -- WHEEL...

A MEMBER that ends with a slash is a folder. Every member must be in exactly one wheel.
"""

import sys
import zipfile


def main():
    target, *rest = sys.argv[1:]
    middle = rest.index("--")
    wanted = set(rest[:middle])
    found = set()
    for wheel in rest[middle + 1 :]:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                match = [w for w in wanted if name == w or (w.endswith("/") and name.startswith(w))]
                if match:
                    found.update(match)
                    archive.extract(name, target)
    if found != wanted:
        sys.exit("not in the wheels: " + ", ".join(sorted(wanted - found)))


main()
