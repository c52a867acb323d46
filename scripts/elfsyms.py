# SPDX-License-Identifier: BSD-3-Clause
"""The symbols of object files, for scripts that ask which file needs what of which."""
import subprocess


def symbols(objects):
    """(object, name, is it needed?, is it seen by other objects?) of each symbol. By readelf, since nm reads what the
    link-time optimizer has of an object, and that does not name what the compiler knows itself, as malloc(). One
    readelf for all: it costs more to start than to run."""
    objects = list(objects)
    if not objects:
        return
    out = subprocess.run(["readelf", "-sW", *objects], capture_output=True, text=True, check=True).stdout
    obj = objects[0]    # of one file it says no name
    for line in out.splitlines():
        if line.startswith("File: "):
            obj = line[6:]
        elif len(parts := line.split()) == 8 and parts[3] not in ("FILE", "SECTION") and parts[0] != "Num:":
            yield obj, parts[7], parts[6] == "UND", parts[4] != "LOCAL"
