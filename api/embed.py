"""Writes a file's bytes as the elements of a C array: embed.py INPUT OUTPUT"""

import sys

data = open(sys.argv[1], "rb").read()
with open(sys.argv[2], "w") as out:
    for i in range(0, len(data), 20):
        out.write(",".join(map(str, data[i:i + 20])) + ",\n")
