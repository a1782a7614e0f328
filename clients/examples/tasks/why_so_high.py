"""Why is my peak so high: why_so_high.py PROFILE.json, asked of a rematd."""
import json
import os
import sys
import urllib.request

SERVER = os.environ.get("REMAT_SERVER", "http://127.0.0.1:7070")
with open(sys.argv[1], "rb") as profile:
    body = b'{"budget": "100%", "profile": ' + profile.read() + b"}"
told = urllib.request.urlopen(urllib.request.Request(SERVER + "/v1/schedules", body, {"Content-Type": "application/json"}))
why = urllib.request.urlopen(f"{SERVER}/v1/schedules/{json.load(told)['schedule_id']}/explanation")
for group in json.load(why)["at_peak"]["groups"]:
    print(f"{group['bytes']:14} bytes: {group['kind']} of {group['name']}, {group['count']} values")
