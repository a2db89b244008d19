"""Freshet: `freshet run --role all` of the program that FRESHET names, or with PROCESSES=2 ingest and workers apart; settings are the defaults
but for names and addresses, and what the environment has beside them (FRESHET_WORKERS_CONCURRENCY, ...).
It keeps its state in tables of its own and goes on by itself when a policy's time comes, so setup registers
the kinds (developer mode: no budget, no spacing), imports the widgets and lets the workers render each once;
what these publish goes to a topic that nobody reads."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import psycopg

E = os.environ
APP = "com.example.peers"
OTHERS = {name: f"{name}-{E['PUSHES']}" for name in ("app-changes", "widgets", "donations", "suggestions", "dead-letters")}
# Lists that are ready or leased, or hold a retry: anything sooner than the hour that the provider's policies give.
PENDING = "(select 1 from work where due_at < now() + interval '30 minutes' limit 1) union all (select 1 from sweep limit 1)"
STALE = "(select 1 from work where lane = 3 limit 1) union all (select 1 from sweep limit 1)"  # of a reload of everything
AFTER = "nullif(split_part(split_part({}.content, '\"policy\":{{\"after\":\"', 2), '\"', 1), '')::timestamptz"
# The provider writes the first 8 characters of the id that it is asked for, which is the timeline's. Those of the
# widget take their place where they are of its own timeline; all else stays, and is found to be wrong.
# `stored` is the commit of the row's latest write. A store is the last write of a row unless it is requested again, and
# the harness takes the time of widgets with a single event (`latency`) or none (`reload`: the others have the trigger).
# A write after the store can only make it later, never earlier.
MEASURED = f"""create view measured as select w.id::uuid as widget_id, {AFTER.format("t")} as policy_after,
  case when entries #>> '{{0,content,lines,0}}' = left(t.identity::text, 8)
    then jsonb_set(entries, '{{0,content,lines,0}}', to_jsonb(left(w.id, 8))) else entries end as entries,
  pg_xact_commit_timestamp(t.xmin) as stored
  from timeline t join widget w on w.timeline_id = t.id,
    lateral (select t.content::jsonb->'entries' as entries offset 0) parsed
  where t.content is not null"""
PROBE = f"""create table probe_log (widget_id uuid, policy_after timestamptz);
create function probe() returns trigger language plpgsql as $$ begin
  insert into probe_log values (new.identity, {AFTER.format("new")}); return null; end $$;
create trigger probe after update on timeline for each row
  when (new.revision <> old.revision and new.identity >= 'e6666666-0000-0000-0000-000000000000') execute function probe()"""
# Structured mode without headers, as the other contenders' events.
EVENT = ('{"specversion":"1.0","id":"%%(id)s","source":"/cards","type":"freshet.push.received.v1","time":"%%(time)s",'
         '"datacontenttype":"application/json","data":%s}')
HOOKS = {
    "event": {
        "headers": {},
        "value": EVENT % f'{{"app":"{APP}","audience":{{"user":"%(user)s"}},"kinds":["%(kind)s"]}}',
        "all": EVENT % f'{{"app":"{APP}","audience":{{"everyone":true}},"kinds":"all"}}'},
    "positions": f"select partition, next_offset from consumer_position where topic = '{E['PUSHES']}' and next_offset > 0",
    "pending": PENDING,
    "stale": STALE,
    "keys": "select t.identity::text, w.id from widget w join timeline t on t.id = w.timeline_id",
    "probe": PROBE,
    "topics": list(OTHERS.values())}


def settings(**more):
    return dict(E, FRESHET_POSTGRES_URL=E["DATABASE_URL"], FRESHET_KAFKA_BOOTSTRAP_SERVERS=E["BOOTSTRAP"],
                FRESHET_KAFKA_GROUP=E["GROUP"], FRESHET_TOPICS_PUSHES=E["PUSHES"], FRESHET_TOPICS_TIMELINES=E["UPDATES"],
                FRESHET_TOPICS_APP_CHANGES=OTHERS["app-changes"], FRESHET_TOPICS_WIDGETS=OTHERS["widgets"],
                FRESHET_TOPICS_DONATIONS=OTHERS["donations"], FRESHET_TOPICS_SUGGESTIONS=OTHERS["suggestions"],
                FRESHET_TOPICS_DEAD_LETTERS=OTHERS["dead-letters"],
                FRESHET_PROVIDERS_ALLOW_PRIVATE_NETWORKS="127.0.0.1/32", FRESHET_API_PORT="0",
                **({"FRESHET_KAFKA_PROPERTIES": f"fetch.wait.max.ms={E['FETCH_WAIT']}"} if "FETCH_WAIT" in E else {})) | more


def manifest(kinds):
    return json.dumps({  # JSON is YAML
        "app": APP, "developerMode": True, "provider": {"url": E["PROVIDER"]},
        "kinds": [{"name": k, "displayName": k, "description": k, "families": ["systemSmall", "systemMedium"],
                   "variesBy": ["family"], "maxBatch": 100, "minimumSpacing": "0s", "snapshots": False, "placeholder": {}}
                  for k in kinds]})


def freshet(*arguments):
    subprocess.run([E["FRESHET"], *arguments], env=settings(), stdout=sys.stderr, check=True)


def setup():
    with psycopg.connect(E["DATABASE_URL"], autocommit=True) as c, tempfile.TemporaryDirectory() as folder:
        freshet("migrate")
        with open(f"{folder}/kinds.yaml", "w") as f:
            f.write(manifest([k for k, in c.execute("select distinct kind from widgets order by 1")]))
        freshet("kinds", "apply", f.name)
        with open(f"{folder}/placements.jsonl", "w") as f:
            for i, user, kind, family, configuration in c.execute(
                    "select id::text, user_id, kind, family, configuration from widgets order by user_id, kind"):
                f.write(json.dumps({"app": APP, "widget": i, "user": user, "device": f"{user}-phone", "kind": kind,
                                    "family": family, "configuration": configuration,
                                    "environment": {"locale": "en-US", "timeZone": "Europe/Berlin"}}) + "\n")
        freshet("widgets", "import", f.name)
        service = subprocess.Popen([E["FRESHET"], "run", "--role", "workers"], stdout=sys.stderr,
                                   env=settings(FRESHET_TOPICS_TIMELINES=f"{E['UPDATES']}-setup", FRESHET_LOG_LEVEL="warning"))
        deadline = time.time() + 300
        while service.poll() is None and time.time() < deadline and c.execute(HOOKS["pending"]).fetchone():
            time.sleep(0.5)
        service.terminate()
        left, = c.execute("select count(*) from widget w left join timeline t on t.id = w.timeline_id"
                          " where t.content is null").fetchone()
        assert service.wait(60) == 0 and left == 0, f"ended with {service.returncode}, {left} widgets without a timeline"
        c.execute(MEASURED)
        c.execute("vacuum analyze")
    print(json.dumps(HOOKS))


if __name__ == "__main__":
    if sys.argv[1:] == ["setup"]:
        setup()
    elif E.get("PROCESSES", "1") == "1":
        os.execve(E["FRESHET"], ["freshet", "run", "--role", "all"], settings())
    else:
        roles = [subprocess.Popen([E["FRESHET"], "run", "--role", role], env=settings()) for role in ("ingest", "workers")]
        signal.signal(signal.SIGTERM, lambda *_: [role.terminate() for role in roles])
        sys.exit(max(role.wait() for role in roles))
