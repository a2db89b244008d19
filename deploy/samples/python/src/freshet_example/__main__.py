"""The command freshet-example."""

from __future__ import annotations

import argparse
import json
import os
import sys

from .freshet import Freshet, Problem


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="freshet-example", description="WIDGETS_URL, WIDGETS_APP and WIDGETS_TOKEN name the service, the app and its token."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    push = commands.add_parser("push", help="publish a push for the widgets of a user")
    push.add_argument("user")
    push.add_argument("kinds", nargs="+", metavar="kind")
    follow = commands.add_parser("follow", help="print each new content of a widget's timeline")
    follow.add_argument("widget")
    arguments = parser.parse_args()

    try:
        freshet = Freshet(*(os.environ[name] for name in ("WIDGETS_URL", "WIDGETS_APP", "WIDGETS_TOKEN")))
    except KeyError as missing:
        sys.exit(f"freshet-example: {missing.args[0]} is not set")
    try:
        if arguments.command == "push":
            print(json.dumps(freshet.push(arguments.user, arguments.kinds)))
        else:
            for timeline in freshet.follow(arguments.widget):
                print(json.dumps({"revision": timeline["revision"], "entry": timeline["currentEntry"]}), flush=True)
    except Problem as problem:
        sys.exit(f"freshet-example: {problem}")
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
