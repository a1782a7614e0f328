"""Why is my peak so high: why_so_high.py http://127.0.0.1:7070 PROFILE.json"""
import json
import pathlib
import sys
import urllib.request

server, profile = sys.argv[1:]
body = b'{"budget": "100%", "profile": ' + pathlib.Path(profile).read_bytes() + b"}"
told = urllib.request.urlopen(urllib.request.Request(server + "/v1/schedules", body, {"Content-Type": "application/json"}))
why = urllib.request.urlopen(f"{server}/v1/schedules/{json.load(told)['schedule_id']}/explanation")
for group in json.load(why)["at_peak"]["groups"]:
    print(f"{group['bytes']:14} bytes: {group['kind']} of {group['name']}, {group['count']} values")
