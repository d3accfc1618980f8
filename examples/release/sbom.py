"""Prints the packages of a Cargo.lock as a CycloneDX document, the same for the same lock file."""

import json
import sys


def packages(lock):
    """The tables [[package]] of the lock file, with their plain values."""
    for block in lock.split("[[package]]\n")[1:]:
        fields = {}
        for line in block.split("\n\n")[0].splitlines():
            key, separator, value = line.partition(" = ")
            if separator and value.startswith('"'):
                fields[key] = value.strip('"')
        yield fields


def component(package):
    reference = f"pkg:cargo/{package['name']}@{package['version']}"
    document = {
        "type": "library",
        "bom-ref": reference,
        "name": package["name"],
        "version": package["version"],
        "purl": reference,
    }
    if "checksum" in package:
        document["hashes"] = [{"alg": "SHA-256", "content": package["checksum"]}]
    return document


def main(path):
    with open(path, encoding="utf-8") as file:
        components = [component(package) for package in packages(file.read())]
    program = next(part for part in components if part["name"] == "poolctl")
    components.remove(program)
    program["type"] = "application"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": program},
        "components": components,
    }
    json.dump(document, sys.stdout, indent=1)
    print()


main(sys.argv[1])
