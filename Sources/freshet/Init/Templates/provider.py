"""A timeline provider: answers POST /timelines with the greeting in greeting.txt, for each person."""
import base64
import hashlib
import hmac
import json
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(__file__).parent
SECRET = base64.b64decode((FOLDER / "provider.secret").read_text().strip().removeprefix("whsec_"))
GREETING = FOLDER / "greeting.txt"


def is_signed(headers, body, tolerance=300):
    """Whether Freshet signed the body with the secret, not long ago."""
    identifier, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > tolerance:
        return False
    signed = f"{identifier}.{timestamp}.".encode() + body
    code = "v1," + base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(code, part) for part in headers.get("webhook-signature", "").split())


def timeline(request):
    """One entry from the last change of the greeting on; only pushes reload it, so the policy is `never`."""
    changed = datetime.fromtimestamp(int(GREETING.stat().st_mtime), timezone.utc).isoformat()
    content = {"text": f"{GREETING.read_text().strip()}, {request['user']}!"}
    return {"id": request["id"], "policy": "never", "entries": [{"date": changed, "content": content}]}


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not is_signed(self.headers, body):
            self.answer(401, {"error": {"code": "unsigned", "message": "the request is not signed with the secret"}})
        elif self.path != "/timelines":
            self.answer(404, {"error": {"code": "unknown", "message": "there is only /timelines"}})
        else:
            self.answer(200, {"timelines": [timeline(request) for request in json.loads(body)["requests"]]})

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", 8092), Provider).serve_forever()
