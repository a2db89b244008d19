-- Timelines and work lists (DESIGN.md). A timeline is one row: identity, state and content. Nothing that a reload changes
-- is indexed, so its updates are HOT; which rows are due when stands in `work`.
CREATE SEQUENCE timeline_id AS bigint;

-- Tokens of leases and revisions of what is published. Without a cache: a later token is always the higher one.
CREATE SEQUENCE token AS bigint CACHE 1;

CREATE TABLE timeline (
    id bigint NOT NULL DEFAULT nextval('timeline_id') CONSTRAINT timeline_pkey PRIMARY KEY,
    -- Requests, and how far they are served.
    requested bigint NOT NULL DEFAULT 0,
    rendered bigint NOT NULL DEFAULT 0,
    free_requested bigint NOT NULL DEFAULT 0,
    forced_requested bigint NOT NULL DEFAULT 0,
    generation bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 0,
    content_revision bigint NOT NULL DEFAULT 0,
    -- When to look.
    listed_at timestamptz NOT NULL DEFAULT 'infinity',
    eligible_at timestamptz NOT NULL DEFAULT '-infinity',
    free_at timestamptz NOT NULL DEFAULT '-infinity',
    retry_at timestamptz NOT NULL DEFAULT '-infinity',
    policy_at timestamptz NOT NULL DEFAULT 'infinity',
    -- What happened.
    rendered_at timestamptz,
    stored_at timestamptz,
    requested_at timestamptz,
    decided_at timestamptz,
    viewed_at timestamptz,
    placed_at timestamptz NOT NULL DEFAULT now(),
    cause_offset bigint,
    decision_offset bigint,
    identity uuid NOT NULL,
    hash uuid,
    kind_id int NOT NULL,
    cause_partition int,
    decision_partition int,
    fetch_milliseconds int,
    views int NOT NULL DEFAULT 0,
    view_rate real NOT NULL DEFAULT 0,
    cause_topic smallint,
    cause_reason smallint,
    decision_topic smallint,
    decision_reason smallint,
    decision_rule smallint NOT NULL DEFAULT 0,
    last_decision smallint NOT NULL DEFAULT 0,
    attempts smallint NOT NULL DEFAULT 0,
    listed_lane smallint NOT NULL DEFAULT 3,
    family smallint,
    listed_anew boolean NOT NULL DEFAULT false,
    asleep boolean NOT NULL DEFAULT false,
    orphaned boolean NOT NULL DEFAULT false,
    budget bytea,
    configuration text NOT NULL,
    locale text,
    time_zone text,
    user_id text COLLATE "C",
    content text COMPRESSION lz4
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2);

-- With the primary key these are all the indexes that this table may have.
CREATE UNIQUE INDEX timeline_identity ON timeline (identity);
CREATE INDEX timeline_by_kind ON timeline (kind_id, id);

COMMENT ON COLUMN timeline.identity IS 'first 128 bits of SHA-256 of the canonical identity; the public id';
COMMENT ON COLUMN timeline.family IS 'NULL: the kind does not vary by it (likewise locale, time_zone; user_id: shared)';
COMMENT ON COLUMN timeline.configuration IS 'RFC 8785 canonical JSON object';
COMMENT ON COLUMN timeline.generation IS 'the kind''s at the last render';
COMMENT ON COLUMN timeline.revision IS 'token of the last store';
COMMENT ON COLUMN timeline.content_revision IS 'token that stored this content, and revision of its message; 0: none yet';
COMMENT ON COLUMN timeline.listed_at IS 'due_at of the list that will look at it; infinity: none will';
COMMENT ON COLUMN timeline.listed_anew IS
    'whether the last write made the appointment; read by the statement that wrote it, for RETURNING knows no old values';
COMMENT ON COLUMN timeline.eligible_at IS 'when spacing and budget allow budgeted work';
COMMENT ON COLUMN timeline.free_at IS 'when spacing allows free work; only shared timelines keep it';
COMMENT ON COLUMN timeline.policy_at IS 'when the policy asks for a reload, jitter included; infinity: only on request';
COMMENT ON COLUMN timeline.views IS 'hours in which it was viewed: views at least an hour after the last counted one';
COMMENT ON COLUMN timeline.view_rate IS
    'hours a day in which it was viewed, an average that decays with a time constant of three days';
COMMENT ON COLUMN timeline.placed_at IS 'when a widget that shows it was last placed, to the hour';
COMMENT ON COLUMN timeline.requested_at IS 'time of the latest request to a person, a device or a widget';
COMMENT ON COLUMN timeline.budget IS 'the spent part of the daily budget, as BudgetLedger stores it; NULL: nothing';

-- Work lists. `due_at` never changes; `ready_at` is `due_at`, or the end of the lease.
CREATE TABLE work (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT work_pkey PRIMARY KEY,
    due_at timestamptz NOT NULL,
    ready_at timestamptz NOT NULL,
    lease bigint,
    generation bigint,
    kind_id int NOT NULL,
    lane smallint NOT NULL,
    leases smallint NOT NULL DEFAULT 0,
    timelines bigint[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

ALTER TABLE work ALTER timelines SET STORAGE main;
CREATE INDEX work_ready ON work (kind_id, lane, ready_at);

COMMENT ON COLUMN work.lease IS 'token of the holder; only it ends the list';
COMMENT ON COLUMN work.generation IS 'of a sweep: the list is no appointment, and looks at rows below this generation';
COMMENT ON COLUMN work.leases IS 'leases so far; after more than one, its timelines may be stored and not published';

-- The latest time of a list: a row that is due later is looked at then and appointed again.
CREATE FUNCTION list_horizon() RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT date_bin('268.435456 seconds', now() + interval '24 hours 268.435455 seconds', 'epoch')
$$;

-- Rule 1 of work lists: when a row must be looked at, not before now() and at most 24 hours ahead; infinity: never. It is
-- Appointment.time of the model's TimelineState.nextLook; a test compares the two.
CREATE FUNCTION next_look(
    orphaned boolean, asleep boolean, requested bigint, rendered bigint, free_requested bigint, forced_requested bigint,
    generation bigint, eligible_at timestamptz, free_at timestamptz, retry_at timestamptz, policy_at timestamptz,
    kind_generation bigint, kind_free bigint, kind_forced bigint, kind_cancelled bigint
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN orphaned THEN now() ELSE greatest(now(), least(retry_at, list_horizon()), least(
        CASE WHEN asleep OR policy_at = 'infinity' THEN 'infinity' ELSE least(policy_at, list_horizon()) END,
        CASE WHEN forced_requested > rendered OR kind_forced > generation AND kind_forced > kind_cancelled
                 THEN '-infinity'
             WHEN free_requested > rendered OR kind_free > generation AND kind_free > kind_cancelled
                 THEN least(free_at, list_horizon())
             WHEN requested > rendered OR kind_generation > generation AND kind_generation > kind_cancelled
                 THEN least(eligible_at, list_horizon())
             ELSE 'infinity' END)) END
$$;

-- Lane of the appointment that a row gets once an earlier one has ended (TimelineState.nextLane).
CREATE FUNCTION next_lane(
    orphaned boolean, requested bigint, rendered bigint, generation bigint, cause_reason smallint,
    kind_generation bigint, kind_cancelled bigint
) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN orphaned THEN 3
                WHEN requested > rendered
                    THEN CASE WHEN cause_reason <= 4 THEN 0 WHEN cause_reason = 7 THEN 2 ELSE 1 END
                WHEN kind_generation > generation AND kind_generation > kind_cancelled THEN 3
                ELSE 2 END::smallint
$$;

-- Which of a timeline's views count, in the order in which they came: those at least an hour after the last counted one.
CREATE FUNCTION count_views(INOUT view_rate real, INOUT viewed_at timestamptz, times timestamptz[], OUT views int)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    at timestamptz;
BEGIN
    views := 0;
    FOREACH at IN ARRAY times LOOP
        CONTINUE WHEN at < viewed_at + interval '1 hour';
        view_rate := 1 / 3.0 + view_rate
            * exp(-least(coalesce(extract(epoch FROM at - viewed_at), 0)::float8 / (3 * 86400), 100));
        viewed_at := at;
        views := views + 1;
    END LOOP;
END $$;

-- Worker processes: registered before their first claim, and deleted only when long silent, so that a process that is
-- alone knows that nobody else can have published meanwhile.
CREATE TABLE worker (
    id uuid PRIMARY KEY,
    seen_at timestamptz NOT NULL DEFAULT now(),
    left_token bigint
) WITH (fillfactor = 50);

COMMENT ON COLUMN worker.left_token IS 'latest token when it stopped in order: lists leased later do not overlap its work';

-- The database's identity when tokens were last issued: after a failover or a restore the sequence jumps.
CREATE TABLE token_origin (
    is_only bool PRIMARY KEY DEFAULT true CHECK (is_only),
    system_identifier bigint NOT NULL,
    wal_timeline int NOT NULL
);

-- WAL timeline of what is written now. The control file's follows only with the first checkpoint after a promotion.
CREATE FUNCTION wal_timeline() RETURNS int LANGUAGE sql STABLE AS $$
    SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
$$;

INSERT INTO token_origin (system_identifier, wal_timeline)
SELECT s.system_identifier, wal_timeline() FROM pg_control_system() s;

-- Snapshots are shown where there is no timeline yet, and go when the timeline is stored.
CREATE TABLE snapshot (
    timeline_id bigint PRIMARY KEY,
    revision bigint NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now(),
    entry text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);

COMMENT ON COLUMN snapshot.revision IS 'token of the fetch that stored it';
COMMENT ON COLUMN snapshot.entry IS 'canonical JSON, as an entry lies in a timeline';

-- Paced work that walks many timelines: a reload of everyone of one kind (`generation`), of those of one kind that match
-- (`matching`), or of an audience of very many widgets. Deleted when done.
CREATE TABLE sweep (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id int NOT NULL,
    kind_id int,
    generation bigint,
    audience smallint NOT NULL DEFAULT 0,
    audience_id text COLLATE "C",
    matching text,
    events bigint NOT NULL DEFAULT 1,
    urgency smallint NOT NULL DEFAULT 0,
    started boolean NOT NULL DEFAULT false,
    cursor bigint NOT NULL DEFAULT 0,
    until bigint NOT NULL DEFAULT 0,
    wrapped boolean NOT NULL DEFAULT false,
    cursor_widget text COLLATE "C" NOT NULL DEFAULT '',
    cause_topic smallint,
    cause_partition int,
    cause_offset bigint,
    cause_reason smallint,
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

COMMENT ON COLUMN sweep.kind_id IS 'NULL: all kinds of an audience';
COMMENT ON COLUMN sweep.audience IS '0 everyone, 1 user, 2 device';
COMMENT ON COLUMN sweep.started IS 'equal requests from now on are sweeps of their own';
COMMENT ON COLUMN sweep.until IS 'the walk of a generation ends where it was raised last, after one turn around the end';

CREATE UNIQUE INDEX sweep_of_kind ON sweep (kind_id) WHERE generation IS NOT NULL;
CREATE UNIQUE INDEX sweep_waiting ON sweep
    (app_id, coalesce(kind_id, 0), audience, coalesce(audience_id, ''), md5(coalesce(matching, '')))
    WHERE generation IS NULL AND NOT started;

-- A kind that is retired, or whose sharing or variesBy was changed: its widgets are taken off its timelines, or moved to
-- those of the new identity, in paced chunks. Passes follow one another until one that began when no process could know
-- the old definition any more has changed nothing.
CREATE TABLE kind_change (
    kind_id int PRIMARY KEY REFERENCES kind,
    retires boolean NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    pass int NOT NULL DEFAULT 1,
    pass_begins_at timestamptz NOT NULL DEFAULT now(),
    cursor bigint NOT NULL DEFAULT 0,
    changed bigint NOT NULL DEFAULT 0,
    changed_in_all bigint NOT NULL DEFAULT 0,
    configurations boolean NOT NULL DEFAULT false
) WITH (fillfactor = 50);

COMMENT ON TABLE kind_change IS 'its row lock is held by the one process that changes a chunk';
COMMENT ON COLUMN kind_change.pass_begins_at IS 'the pass waits until then';
COMMENT ON COLUMN kind_change.configurations IS 'whether the parameters were changed, so that all configurations are looked at';
COMMENT ON COLUMN kind_change.changed IS 'widgets moved or removed in this pass';
