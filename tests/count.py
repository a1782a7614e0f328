"""Adds up JUnit results and prints the closing line; exit status 1 when anything failed."""

import os
import sys
import xml.etree.ElementTree as ET


def main(paths):
    passed, failed, skipped, names = 0, 0, 0, []
    for path in paths:
        if not os.path.exists(path):
            failed += 1
            names.append(f"{path.rsplit('/', 1)[-1]}: no results were written")
            continue
        for case in ET.parse(path).getroot().iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
                names.append(f"{path.rsplit('/', 1)[-1]}: {case.get('classname') or ''} {case.get('name')}")
            elif case.find("skipped") is not None:
                skipped += 1
            else:
                passed += 1
    for name in names:
        print("FAILED", name)
    if passed + failed == 0:
        print("no test ran")
        return 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


sys.exit(main(sys.argv[1:]))
