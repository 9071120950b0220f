"""Holds locks with redis-py for a test: reads a command a line, answers with a line."""
import sys

import redis

client = redis.Redis(port=int(sys.argv[1]))
locks = {}


def lock(name):
    if name not in locks:
        locks[name] = client.lock(name, timeout=30, sleep=0.01)
    return locks[name]


def adopt(name, token):
    lock(name).local.token = token.encode()
    return lock(name).owned()


commands = {
    "try": lambda name: lock(name).acquire(blocking=False),
    "wait": lambda name: lock(name).acquire(),
    "release": lambda name: lock(name).release() is None,
    "locked": lambda name: lock(name).locked(),
    "owned": lambda name: lock(name).owned(),
    "extend": lambda name: lock(name).extend(60, replace_ttl=True),
    "reacquire": lambda name: lock(name).reacquire(),
    "adopt": adopt,
}

for line in sys.stdin:
    command, *args = line.split()
    try:
        print(bool(commands[command](*args)), flush=True)
    except Exception as e:  # the test decides
        print("error:", e, flush=True)
