"""Who is asking the service: journalctl -u rematd -o cat | who_asks.py"""
import collections
import json
import sys

asked = collections.Counter()
for line in sys.stdin:
    if line.startswith("{") and '"message":"request"' in line and line.endswith("}\n"):
        asked[json.loads(line)["asked_by"]] += 1
for who, times in asked.most_common():
    print(f"{times:8} requests of {who}")
