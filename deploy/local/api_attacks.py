"""Attacks the HTTP API through raw sockets: framing, slow clients, tokens and paths. Every answer that is not expected is a finding.

usage: api_attacks.py URL KEYS OPENAPI APP OTHER [--long]

KEYS is the JWKS file of the API, with an EdDSA key `dev` and an HS256 key `hs`; APP has the widget w1, and OTHER the widget w9 of the
user u-of-other. The API's receive timeout is 3 s. --long also waits for the limit of an incomplete head, which is 75 s.
"""

import base64
import hashlib
import hmac
import json
import re
import socket
import sys
import time
from collections import namedtuple

URL, KEYS, OPENAPI, APP, OTHER = sys.argv[1:6]
LONG = "--long" in sys.argv
HOST, PORT = re.match(r"http://([^:]+):(\d+)", URL).groups()
BASE = f"/v1/apps/{APP}"
SECRET_OF_OTHER = b"u-of-other"

Answer = namedtuple("Answer", "status headers body")
findings = []
cases = 0
checked = time.monotonic()


def check(name, ok, *seen):
    global cases, checked
    cases += 1
    if time.monotonic() - checked > 5:
        print(f"api-attacks: {name}: took {time.monotonic() - checked:.1f} s")
    checked = time.monotonic()
    if not ok:
        findings.append(name)
        print(f"api-attacks: FOUND: {name}:", *(repr(s)[:600] for s in seen), file=sys.stderr)


# --- connections

# Seconds. Long for a slow machine, but shorter than the 75 s after which the API closes any connection that is idle.
PATIENCE = 60


def connect(timeout=PATIENCE):
    connection = socket.create_connection((HOST, int(PORT)), timeout=timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def drain(connection):
    """All bytes until the server closes, and whether it did."""
    data = b""
    try:
        while chunk := connection.recv(65536):
            data += chunk
        return data, True
    except TimeoutError:
        return data, False
    except ConnectionResetError:
        return data, True


def parse(data, methods):
    """The answers in the bytes, to requests with these methods, and the bytes that belong to none."""
    answers = []
    while data:
        head, separator, rest = data.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        match = re.fullmatch(rb"HTTP/1\.[01] (\d{3}) [ -~]*", lines[0])
        if not separator or not match:
            break
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            headers.setdefault(name.lower().decode(), value.strip().decode())
        status = int(match[1])
        if status == 100:
            data = rest
            answers.append(Answer(100, headers, b""))
            continue
        done = [a for a in answers if a.status != 100]
        method = methods[len(done)] if len(done) < len(methods) else "GET"
        if method == "HEAD" or status in (204, 304):
            body, data = b"", rest
        elif headers.get("transfer-encoding") == "chunked":
            body, data = b"", rest
            while True:
                size, _, data = data.partition(b"\r\n")
                count = int(size, 16) if re.fullmatch(rb"[0-9a-fA-F]+", size) else 0
                body, data = body + data[:count], data[count + 2:]
                if count == 0:
                    break
        else:
            count = int(headers.get("content-length", len(rest)))
            body, data = rest[:count], rest[count:]
        answers.append(Answer(status, headers, body))
    return answers, data


def exchange(data, methods=("GET",), half_close=False, timeout=PATIENCE):
    """Sends bytes; returns the answers, the bytes that belong to none, and whether the server closed the connection."""
    with connect(timeout) as connection:
        try:
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass
        received, closed = drain(connection)
    answers, rest = parse(received, methods)
    return answers, rest, closed, received


def request(method, path, headers=(), body=b"", close=True, version="1.1"):
    lines = [f"{method} {path} HTTP/{version}", f"Host: {HOST}:{PORT}", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body


def ask(method, path, headers=(), body=b""):
    answers, rest, closed, _ = exchange(request(method, path, headers, body), (method,))
    if len(answers) != 1 or rest or not closed:
        check(f"{method} {path}: one answer, then the end", False, answers, rest, closed)
        return Answer(0, {}, b"")
    return answers[0]


# --- tokens

def encode(value):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


KEY = {key["kid"]: key for key in json.load(open(KEYS))["keys"]}
HS, DEV = decode(KEY["hs"]["k"]), KEY["dev"]
NOW = int(time.time())
SCOPES = "kinds:write widgets:read widgets:write reload publish operate"
GOOD = {"app": APP, "exp": NOW + 3600, "scope": SCOPES, "sub": "attacker"}


def sign(header, claims, key=HS):
    signed = f"{encode(header)}.{encode(claims)}"
    return f"{signed}.{encode(hmac.new(key, signed.encode(), hashlib.sha256).digest())}"


def token(header=None, key=HS, **claims):
    merged = {name: value for name, value in {**GOOD, **claims}.items() if value is not ...}
    return sign({"alg": "HS256", "kid": "hs", **(header or {})}, merged, key)


def bearer(text):
    return [f"Authorization: Bearer {text}"]


MINE = token()
OWN = bearer(MINE)


def attack_tokens():
    check("the control token is accepted", ask("GET", f"{BASE}/widgets/w1", OWN).status == 200)
    public = decode(DEV["x"])
    pem = b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(bytes.fromhex("302a300506032b6570032100") + public) + b"\n"
    pem += b"-----END PUBLIC KEY-----\n"
    header, claims, signature = MINE.split(".")
    last = signature[-1]
    # The last digit of 43 has two bits that belong to no byte.
    twin = next(c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                if c != last and decode(signature[:-1] + c) == decode(signature))
    refused = {
        # First, while it is surely in the future.
        "nbf": token(nbf=NOW + 90),
        **{f"alg {alg!r}, {what}": f"{encode({'alg': alg, 'typ': 'JWT'})}.{claims}.{end}"
           for alg in ("none", "None", "NONE", "nOnE", "", None, "HS384", "HS512", "RS256", "PS256", "ES384", 5)
           for what, end in (("unsigned", ""), ("with a signature", signature))},
        **{f"HS256 with the public key as {what}": sign({"alg": "HS256", "kid": "dev"}, GOOD, key)
           for what, key in (("bytes", public), ("base64", DEV["x"].encode()), ("PEM", pem), ("nothing", b"\0"))},
        "HS256 with the public key and no kid": sign({"alg": "HS256"}, GOOD, public),
        "EdDSA in the name of an HS256 key": sign({"alg": "EdDSA", "kid": "hs"}, GOOD),
        "HS256 secret in the name of the EdDSA key": sign({"alg": "EdDSA", "kid": "dev"}, GOOD),
        **{f"kid {kid!r}"[:60]: token({"kid": kid}, key)
           for kid in ("../../../../../../dev/null", "/dev/null", "file:///dev/null", "hs\0", "hs ", "HS", "", "' OR 1=1 --",
                       "http://127.0.0.1/k", "${hs}", None, 7, ["hs"], {"a": "hs"}, "k" * 9000)
           for key in (HS, b"\0") if kid is not None or key != HS},
        **{f"header {name}": token({name: value}, b"0" * 32)
           for name, value in (("jwk", {"kty": "oct", "k": encode(b"0" * 32)}), ("jku", f"{URL}/keys"), ("x5u", URL),
                               ("x5c", ["AAAA"]), ("zip", "DEF"), ("b64", False))},
        "crit": token({"crit": ["exp"]}), "typ of another sort": token({"typ": "secevent+jwt"}),
        "expired": token(exp=NOW - 31), "no exp": token(exp=...), "exp 0": token(exp=0),
        "exp text": token(exp=str(NOW + 60)), "exp null": token(exp=None), "exp beyond": token(exp=1e300),
        "exp negative": token(exp=-NOW), "exp list": token(exp=[NOW + 60]), "nbf text": token(nbf="0"),
        "aud of another": token(aud="somebody"), "aud list": token(aud=["a", "b"]),
        "no app": token(app=...), "app list": token(app=[APP]), "app null": token(app=None), "app empty": token(app=""),
        "app with NUL": token(app=APP + "\0"), "app number": token(app=1), "user empty": token(user=""),
        "user with NUL": token(user="u42\0"), "user list": token(user=["u42"]),
        "signature cut": MINE[:-4], "signature gone": f"{header}.{claims}.", "signature spelt otherwise": MINE[:-1] + twin,
        "claims changed": f"{header}.{encode({**GOOD, 'app': OTHER})}.{signature}", "padding": MINE + "=",
        "two parts": f"{header}.{claims}", "four parts": MINE + ".x", "five parts": MINE + ".x.y", "dots": "..",
        "claims no JSON": sign({"alg": "HS256", "kid": "hs"}, b"{"), "claims a list": sign({"alg": "HS256", "kid": "hs"}, []),
        "header no JSON": f"{encode(b'{')}.{claims}.{signature}", "header deep": f"{encode(b'[' * 4000)}.{claims}.{signature}",
        "claims deep": sign({"alg": "HS256", "kid": "hs"}, b'{"a":' * 4000), "space inside": MINE.replace(".", ". "),
        "claims not UTF-8": sign({"alg": "HS256", "kid": "hs"}, b'{"app":"\xc0\xae"}'), "text": "hello", "percent": "%2e" * 9,
    }
    for name, text in refused.items():
        answer = ask("GET", f"{BASE}/widgets/w1", bearer(text))
        fine = answer.status == 401 and answer.headers.get("www-authenticate", "").startswith("Bearer realm")
        check(f"token: {name}", fine and answer.headers.get("content-type") == "application/problem+json", answer)
        check(f"token: {name}: no part of it is told", text[-12:] not in answer.body.decode("utf-8", "replace") or len(text) < 20,
              answer)
    for name, text in {"40 KB": "A" * 40_000, "kid of 40 KB": token({"kid": "k" * 40_000})}.items():
        check(f"token: {name}", ask("GET", f"{BASE}/widgets/w1", bearer(text)).status == 431)
    for app in (OTHER, "com.example.nothing", APP.upper(), APP + "/", f"{APP}/../{OTHER}", f"{OTHER}/../{APP}", "*", ".*", APP + "."):
        answer = ask("GET", f"{BASE}/widgets/w1", bearer(token(app=app)))
        check(f"token: of the app {app!r}", answer.status == 404, answer)
    scopes = {"of a list": (["operate"], 403), "none": (..., 403), "unknown": ("admin root *", 403), "of nothing": ("", 403),
              "with a prefix": ("widgets:readx widgets:", 403), "in capitals": ("WIDGETS:READ", 403)}
    for name, (scope, status) in scopes.items():
        answer = ask("GET", f"{BASE}/widgets/w1", bearer(token(scope=scope)))
        check(f"token: scope {name}", answer.status in (status, 200 if name == "of a list" else status, 401), answer)
    elsewhere = {"no header": [], "empty": ["Authorization:"], "Basic": ["Authorization: Basic " + MINE], "bare": ["Authorization: " + MINE],
                 "cookie": ["Cookie: token=" + MINE], "X-Authorization": ["X-Authorization: Bearer " + MINE],
                 "two, the first forged": bearer("x") + OWN, "forwarded": ["X-Forwarded-User: root", "X-Remote-User: root"]}
    for name, headers in elsewhere.items():
        answer = ask("GET", f"{BASE}/widgets/w1", headers)
        check(f"token: {name}", answer.status in (400, 401), answer)
    answer = ask("GET", f"{BASE}/widgets/w1?access_token={MINE}")
    check("token: in the query", answer.status == 401, answer)


# --- paths

def attack_paths():
    other = bearer(token(app=OTHER))
    check("the other app's widget is there", SECRET_OF_OTHER in ask("GET", f"/v1/apps/{OTHER}/widgets/w9", other).body)
    dots = ("..", "%2e%2e", "%2E%2e", ".%2e", "..%2f", "%2e%2e%2f", "..%5c", "..\\", "%252e%252e", "..;", "%c0%ae%c0%ae", "%e0%80%ae%2e",
            "..%00", "%uff0e%uff0e", "．．", "．%2e")
    paths = [f"/v1/apps/{OTHER}/widgets/w9", f"/v1/apps/{OTHER}/widgets", f"/v1/apps/{OTHER}/kinds", f"/v1/apps/{OTHER}/signing-secret",
             f"/v1/apps/{OTHER}/widgets/w9/timeline", f"/v1/apps/{OTHER}/widgets/w9/explanation", f"/v1/apps/{OTHER}/dead-letters/1",
             f"{BASE}/widgets/w9", f"{BASE}/widgets/w9/timeline", f"{BASE}/widgets/w9/explanation"]
    for dot in dots:
        paths += [f"{BASE}/{dot}/{OTHER}/widgets/w9", f"{BASE}/widgets/{dot}/{dot}/{dot}/{OTHER}/widgets/w9", f"/v1/apps/{dot}{OTHER}/widgets/w9",
                  f"/{dot}/v1/apps/{OTHER}/widgets/w9", f"{BASE}%2f{dot}%2f{OTHER}/widgets/w9", f"{BASE}/widgets/{dot}"]
    for app in (APP.upper(), APP + "%00", APP + "%20", APP + "+", "%00", "%ff", "%", "%zz", "%c0%ae", "%ed%a0%80", "%f4%90%80%80", APP + "%0d%0a",
                APP + ";x", APP + "%2f", APP + "%E2%80%8B", "*", ".", "com%2fexample.bank", f"{APP},{OTHER}", "%" + "41" * 300, "a" * 2000):
        paths += [f"/v1/apps/{app}/widgets/w1", f"/v1/apps/{app}/widgets"]
    for widget in ("w1%2ftimeline", "w1%00", "%00", "w1%0d%0aX: y", "w1%ff", "%c0%afw1", "w1;x=1", "w1%20", "%20", "w1%2e", "w" * 3000, "%E2%80%AEw1"):
        paths += [f"{BASE}/widgets/{widget}", f"{BASE}/widgets/{widget}/timeline"]
    paths += [f"//v1/apps/{APP}/widgets/w1", f"/v1//apps/{APP}/widgets/w1", f"{BASE}//widgets/w1", f"{BASE}/widgets//w1", f"{BASE}/widgets/w1/",
              "/v1", "/v1/", "/v1/apps", "/v1/apps/", f"/V1/apps/{APP}/widgets/w1", f"/v1/APPS/{APP}/widgets/w1", "/v2/apps", "/metrics", "/debug",
              "/health", "/health/", "/health/live/..", "/health/../v1/apps/" + OTHER + "/widgets/w9", "/.env", "/..%2f..%2fetc/passwd",
              f"/v1/apps/{APP}/dead-letters/-1", f"{BASE}/dead-letters/1e3", f"{BASE}/dead-letters/99999999999999999999", f"{BASE}/dead-letters/+1"]
    for path in paths:
        for method in ("GET", "DELETE"):
            answer = ask(method, path, OWN)
            refusals = (400, 404, 405, 414, 431)
            # The removal of a widget that is not known yet is an event of this app, whatever its id.
            mine = method == "DELETE" and re.fullmatch(re.escape(BASE) + "/widgets/[^/]+", path)
            check(f"{method} {path[:90]}: refused", answer.status in (*refusals, 202) if mine else answer.status in refusals, answer)
            check(f"{method} {path[:90]}: tells nothing of another tenant", SECRET_OF_OTHER not in answer.body, answer)
    for path in ("/v1", "/v1/", "/%76%31/apps"):
        check(f"GET {path}: no route", ask("GET", path).status in (400, 404))
    overrides = ([f"X-Original-URL: /v1/apps/{OTHER}/widgets/w9"], [f"X-Rewrite-URL: /v1/apps/{OTHER}/widgets/w9"], [f"X-App: {OTHER}"],
                 ["X-HTTP-Method-Override: DELETE"], [f"X-Forwarded-Prefix: /v1/apps/{OTHER}"], [f"Forwarded: for=127.0.0.1;host={OTHER}"])
    plain = ask("GET", f"{BASE}/widgets/w1", OWN)
    for headers in overrides:
        answer = ask("GET", f"{BASE}/widgets/w1", OWN + headers)
        check(f"{headers[0][:40]}: ignored", answer.status == 200 and answer.body == plain.body, answer)
    for query in (f"app={OTHER}", f"app={APP}", "user=u42&user=u-of-other", "user=%00", "user=%ff", "user=%c0%ae", "limit=-1", "limit=1e9", "limit=%2b1",
                  "cursor=%00", "cursor=../x", "cursor=" + encode(b"\0"), "=x", "&&&=", "user[]=u42", "%00=1", "limit=1;user=u42"):
        answer = ask("GET", f"{BASE}/widgets?{query}", OWN)
        check(f"GET widgets?{query}: refused", answer.status in (400, 422), answer)
    answer = ask("GET", f"{BASE}/widgets?user=u-of-other", OWN)
    check("a person of the other app has no widgets here", answer.status == 200 and SECRET_OF_OTHER not in answer.body, answer)
    absolute, _, _, _ = exchange(f"GET http://evil.example{BASE}/widgets/w1 HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n".encode())
    check("an absolute URL without a token", [a.status for a in absolute] in ([401], [400], [404]), absolute)


# --- framing

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def attack_framing():
    post = f"POST {BASE}/reloads HTTP/1.1\r\nHost: x\r\n{OWN[0]}\r\nContent-Type: application/json\r\n"
    chunked = b"0\r\n\r\n" + SMUGGLED
    length = len(chunked)
    headers = {
        "CL and TE": (f"Content-Length: {length}\r\nTransfer-Encoding: chunked", chunked),
        "TE and CL": (f"Transfer-Encoding: chunked\r\nContent-Length: {length}", chunked),
        "CL 0 and TE": ("Content-Length: 0\r\nTransfer-Encoding: chunked", chunked),
        "two CLs": (f"Content-Length: 0\r\nContent-Length: {len(SMUGGLED)}", SMUGGLED),
        "two CLs the other way": (f"Content-Length: {len(SMUGGLED)}\r\nContent-Length: 0", SMUGGLED),
        "a list of CLs": (f"Content-Length: 0, {len(SMUGGLED)}", SMUGGLED),
        "TE x, then chunked": ("Transfer-Encoding: x\r\nTransfer-Encoding: chunked", chunked),
        "TE: chunked, then x": ("Transfer-Encoding: chunked\r\nTransfer-Encoding: x", chunked),
        **{f"CL {value!r}": (f"Content-Length: {value}", SMUGGLED)
           for value in ("+0", "-1", "0x0", "0 0", "", "1e1", "99999999999999999999999", "0\x0b", "\x0c0", "٠", "0;", "O")},
        **{f"TE {value!r} with CL": (f"Content-Length: {length}\r\nTransfer-Encoding: {value}", chunked)
           for value in ("xchunked", "chunkedx", "identity", "chunked, identity", "chunked chunked", "\x0bchunked", "chunked\x0b", '"chunked"',
                         "gzip, chunked", "chunked;q=1", ",chunked", "CHUNKED")},
        **{f"TE {value!r}": (f"Transfer-Encoding: {value}", chunked)
           for value in ("xchunked", "identity", "chunked, identity", "chunked;q=1", "")},
        "space before the colon": (f"Content-Length: {length}\r\nTransfer-Encoding : chunked", chunked),
        "space before the name": (f"Content-Length: {length}\r\n Transfer-Encoding: chunked", chunked),
        "folded": (f"Content-Length: {length}\r\nTransfer-Encoding:\r\n chunked", chunked),
        "CR in a value": (f"Content-Length: {length}\r\nX: a\rTransfer-Encoding: chunked", chunked),
        "NUL in a value": (f"Content-Length: {length}\r\nX: a\0b", chunked),
        "NUL in a name": (f"Content-Length: {length}\r\nTransfer\0-Encoding: chunked", chunked),
        "no name": (f"Content-Length: {length}\r\n: chunked", chunked),
        "no colon": (f"Content-Length: {length}\r\nTransfer-Encoding chunked", chunked),
    }
    live = request("GET", "/health/live", close=False)
    for name, (lines, body) in headers.items():
        for before in (0, 3):
            data = live * before + post.encode() + lines.encode() + b"\r\n\r\n" + body
            answers, rest, closed, received = exchange(data, ["GET"] * before + ["POST"])
            finals = [a.status for a in answers if a.status != 100]
            fine = bool(finals) and finals[:-1] == [200] * before and 400 <= finals[-1] < 600 and finals[-1] != 500 and not rest and closed
            check(f"framing: {name}, behind {before}: one refusal, then the end", fine, received, closed)
            check(f"framing: {name}, behind {before}: nothing is smuggled", b"/smuggled" not in received, received)
    chunks = {"0x": b"0x0\r\n\r\n", "plus": b"+0\r\n\r\n", "minus": b"-1\r\n\r\n", "huge": b"ffffffffffffffff0\r\n", "overflow": b"10000000000000000\r\n",
              "no CRLF after the data": b"2\r\n{}0\r\n\r\n", "LF alone": b"2\n{}\n0\n\n", "words": b"zz\r\n\r\n", "space": b" 0\r\n\r\n",
              "NUL": b"0\0\r\n\r\n", "CR alone": b"2\r{}\r0\r\r",
              "long trailer": b"0\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n"}
    for name, body in chunks.items():
        answers, rest, closed, received = exchange(
            post.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + body + SMUGGLED, ("POST",))
        fine = len(answers) <= 1 and all(400 <= a.status < 500 for a in answers) and not rest and closed
        check(f"chunks: {name}: refused, then the end", fine, received, closed)
        check(f"chunks: {name}: nothing is smuggled", b"/smuggled" not in received, received)
    lines = {"double space": ("GET  /health/live HTTP/1.1", (200, 400)), "no version": ("GET /health/live", (400, 505)), "HTTP/0.9": ("GET /health/live HTTP/0.9", (400, 505)),
             "HTTP/2.0": ("GET /health/live HTTP/2.0", (400, 505)), "preface of HTTP/2": ("PRI * HTTP/2.0", (400, 501, 505)), "lower case": ("get /health/live HTTP/1.1", (400, 501)),
             "tab": ("GET\t/health/live\tHTTP/1.1", (400, 501)), "asterisk": ("GET * HTTP/1.1", (400, 404)), "OPTIONS *": ("OPTIONS * HTTP/1.1", (200, 204, 400, 404, 405)),
             "TRACE": ("TRACE /health/live HTTP/1.1", (405, 501)), "CONNECT": ("CONNECT a:1 HTTP/1.1", (400, 405, 501)), "NUL": ("GET /health/live\0 HTTP/1.1", (400,)),
             "unknown method": ("BREW /health/live HTTP/1.1", (405, 501)), "text behind": ("GET /health/live HTTP/1.1 x", (400, 505)), "no path": ("GET HTTP/1.1", (400,)),
             "fragment": ("GET /health/live#x HTTP/1.1", (200, 400, 404)), "relative": ("GET health/live HTTP/1.1", (400,)),
             "100 KB": (f"GET /{'a' * 100_000} HTTP/1.1", (414, 431)), "100 KB of query": (f"GET /health/live?{'a' * 100_000} HTTP/1.1", (414, 431))}
    for name, (line, statuses) in lines.items():
        answers, rest, closed, received = exchange(line.encode() + b"\r\nHost: x\r\nConnection: close\r\n\r\n", (line.split(" ")[0],))
        fine = len(answers) == 1 and answers[0].status in statuses and not rest and closed
        check(f"request line: {name}", fine, received, closed)
    heads = {"no Host": ("", 400), "two Hosts": ("Host: a\r\nHost: b\r\n", 400), "the same Host twice": ("Host: a\r\nHost: a\r\n", 400),
             "a header of 100 KB": ("Host: a\r\nX: " + "y" * 100_000 + "\r\n", 431), "5,000 headers": ("Host: a\r\n" + "X-A: aaaaaaaaaaaa\r\n" * 5_000, 431),
             "a name of 100 KB": ("Host: a\r\n" + "x" * 100_000 + ": y\r\n", 431)}
    for name, (text, status) in heads.items():
        answers, rest, closed, received = exchange(f"GET /health/live HTTP/1.1\r\n{text}\r\n".encode())
        check(f"head: {name}", [a.status for a in answers] == [status] and not rest and closed, received, closed)


# --- connections that go on

def attack_connections():
    live = request("GET", "/health/live", close=False)
    last = request("GET", "/health/live")
    answers, rest, closed, _ = exchange(live * 200 + last, ["GET"] * 201)
    check("200 pipelined requests", [a.status for a in answers] == [200] * 201 and not rest and closed, len(answers), rest, closed)
    mixed = [("GET", "/nothing", (), b"", 404), ("HEAD", f"{BASE}/widgets/w1", OWN, b"", 200), ("GET", f"{BASE}/widgets/w1", OWN, b"", 200),
             ("PUT", f"{BASE}/widgets/w1", (), b'{"a":1}', 401), ("POST", f"{BASE}/reloads", OWN, b"not json", 400), ("HEAD", "/nothing", (), b"", 404),
             ("DELETE", "/health/live", (), b"", 405), ("GET", f"{BASE}/widgets?limit=1", OWN, b"", 200)]
    data = b"".join(request(m, p, h, b, close=False) for m, p, h, b, _ in mixed) + last
    answers, rest, closed, received = exchange(data, [m[0] for m in mixed] + ["GET"])
    check("pipelined: each in its place", [a.status for a in answers] == [m[4] for m in mixed] + [200] and not rest, received)

    gets, path = [], None
    for line in open(OPENAPI):
        if match := re.match(r"  (/v1/\S+):", line):
            path = match[1]
        elif line.startswith("    get:") and "/events" not in path:
            gets.append(path)
    check("the document has paths", len(gets) > 10, gets)
    for path in gets:
        filled = path.replace("{app}", APP).replace("{widget}", "w1").replace("{kind}", "RecentPurchases").replace("{device}", "d7")
        filled = re.sub(r"\{\w+\}", "1", filled)
        for headers in (OWN, [], OWN + ["Accept-Encoding: gzip"]):
            head, get = request("HEAD", filled, headers, close=False), request("GET", filled, headers, close=False)
            answers, rest, closed, received = exchange(head + live + get + last, ["HEAD", "GET", "GET", "GET"])
            fine = len(answers) == 4 and answers[0].status == answers[2].status and answers[1].status == answers[3].status == 200
            check(f"HEAD {path}: in step", fine and not rest and closed, received)

    answers, rest, closed, _ = exchange(request("GET", f"{BASE}/widgets/w1", OWN, close=False), half_close=True)
    check("half-closed after the request: answered", [a.status for a in answers] == [200] and closed, answers, closed)
    body = b'{"audience":{"user":"u42"},"kinds":["RecentPurchases"]}'
    for cut in (0, 5, len(body) - 1):
        head = request("POST", f"{BASE}/reloads", OWN + [f"Content-Length: {len(body)}"], close=False)
        answers, rest, closed, received = exchange(head + body[:cut], ("POST",), half_close=True)
        check(f"half-closed after {cut} bytes of the body: the end", closed and all(a.status in (400, 408) for a in answers), received)
    for cut in (3, 20, len(live) - 1):
        answers, rest, closed, received = exchange(live[:cut], half_close=True)
        check(f"half-closed after {cut} bytes of the head: the end", closed and all(a.status == 400 for a in answers), received)

    for extra in ((), ("Connection: keep-alive",)):
        answers, rest, closed, received = exchange(request("GET", f"{BASE}/widgets", [*OWN, *extra], close=False, version="1.0") + live)
        check(f"HTTP/1.0 {extra}: one answer, then the end", [a.status for a in answers] == [200] and closed and not rest
              and "transfer-encoding" not in answers[0].headers, received)

    for name, headers, statuses in (("with a token", OWN, [100, 202]), ("without", [], [401]), ("of another sort", OWN, [417])):
        expect = "Expect: 100-continue" if name != "of another sort" else "Expect: tea"
        for _ in range(10):
            with connect() as connection:
                connection.sendall(request("POST", f"{BASE}/reloads", [*headers, expect, "Content-Type: application/json", f"Content-Length: {len(body)}"]))
                received = connection.recv(65536)
                if statuses[0] == 100:
                    connection.sendall(body)
                more, closed = drain(connection)
            answers, rest = parse(received + more, ("POST",))
            # On a stalled machine the body may come later than the receive timeout allows.
            if [a.status for a in answers] != [100, 408]:
                break
        check(f"Expect, {name}", [a.status for a in answers] == statuses and closed and not rest, received + more)

    for size in (262_145, 10_000_000_000):
        head = request("POST", f"{BASE}/reloads", OWN + ["Content-Type: application/json", f"Content-Length: {size}"])
        answers, rest, closed, received = exchange(head + b"x" * min(size, 300_000), ("POST",))
        check(f"a body of {size} bytes", [a.status for a in answers] == [413] and closed and not rest, received, closed)
    answers, rest, closed, received = exchange(
        request("POST", f"{BASE}/reloads", OWN + ["Content-Type: application/json", "Transfer-Encoding: chunked"])
        + b"10000\r\n" + b"x" * 65536 + (b"\r\n10000\r\n" + b"x" * 65536) * 5 + b"\r\n0\r\n\r\n", ("POST",))
    check("a chunked body of 400 KB", [a.status for a in answers] == [413] and closed, received, closed)


def attack_slowly():
    began = time.monotonic()
    slow = [connect(120) for _ in range(40)]
    for connection in slow:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    with connect() as connection:
        connection.sendall(request("POST", f"{BASE}/reloads", OWN + ["Content-Type: application/json", "Content-Length: 1000"], close=False))
        received = b""
        connection.settimeout(0.5)
        for _ in range(20):
            try:
                connection.sendall(b" ")
                received += connection.recv(65536)
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                break
            if received:
                break
        connection.settimeout(PATIENCE)
        more, closed = drain(connection)
    answers, _ = parse(received + more, ("POST",))
    check("a body that drips in: 408, then the end", [a.status for a in answers] == [408] and closed, received + more)
    check("and nobody else waits", ask("GET", "/health/live").status == 200)
    for connection in slow[1:]:
        connection.sendall(b"a\r\nConnection: close\r\n\r\n")
        answers, _ = parse(drain(connection)[0], ("GET",))
        check("a head that came late is answered", [a.status for a in answers] == [200], answers)
        connection.close()
    if LONG:
        drain(slow[0])
        check("a head that never ends is given up", time.monotonic() - began < 90, time.monotonic() - began)
    slow[0].close()


for attack in (attack_tokens, attack_paths, attack_framing, attack_connections, attack_slowly):
    began = time.monotonic()
    before = cases
    attack()
    print(f"api-attacks: {attack.__name__}: {cases - before} checks, {time.monotonic() - began:.1f} s")
check("the API is there", ask("GET", "/health/live").status == 200)
check("the widget is there", ask("GET", f"{BASE}/widgets/w1", OWN).status == 200)
check("the other app's widget is there", SECRET_OF_OTHER in ask("GET", f"/v1/apps/{OTHER}/widgets/w9", bearer(token(app=OTHER))).body)
print(f"api-attacks: {cases} checks, {len(findings)} findings")
sys.exit(1 if findings else 0)
