-- A timeline is a cold row (what it is), a narrow hot row (what is wanted and what is rendered) and a content row.
-- There are no foreign keys between them: each row is written and deleted only under the lock of its hot row, and a
-- key check would take a share lock on `kind` for every timeline.
CREATE TABLE timeline (
    id uuid PRIMARY KEY,
    kind_id int NOT NULL,
    family smallint,
    configuration text NOT NULL,
    locale text,
    time_zone text,
    user_id text COLLATE "C",
    created_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON COLUMN timeline.id IS 'first 128 bits of SHA-256 of the canonical identity';
COMMENT ON COLUMN timeline.family IS 'NULL: the kind does not vary by it (likewise locale, time_zone; user_id: shared)';
COMMENT ON COLUMN timeline.configuration IS 'RFC 8785 canonical JSON object';

-- A reload with `matching` walks a kind's timelines in this order, a bounded chunk at a time.
CREATE INDEX timeline_by_kind ON timeline (kind_id, id);

-- One sequence for all claims, without a cache: a later claim always has the higher number, so the claim is the fencing
-- token of the lease and the revision of what is published.
CREATE SEQUENCE timeline_claim AS bigint CACHE 1;

CREATE TABLE timeline_state (
    timeline_id uuid NOT NULL,
    requested bigint NOT NULL DEFAULT 0,
    rendered bigint NOT NULL DEFAULT 0,
    free_requested bigint NOT NULL DEFAULT 0,
    rendered_kind_generation bigint NOT NULL DEFAULT 0,
    rendered_app_generation bigint NOT NULL DEFAULT 0,
    swept_generation bigint NOT NULL DEFAULT 0,
    claim bigint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT 'infinity',
    retry_at timestamptz NOT NULL DEFAULT '-infinity',
    eligible_at timestamptz NOT NULL DEFAULT '-infinity',
    rendered_at timestamptz,
    cause_offset bigint,
    published_hash uuid,
    kind_id int NOT NULL,
    cause_partition int,
    cause_topic smallint,
    attempts smallint NOT NULL DEFAULT 0,
    lane smallint NOT NULL DEFAULT 3,
    view_class smallint NOT NULL DEFAULT 0,
    last_decision smallint NOT NULL DEFAULT 0,
    leased boolean NOT NULL DEFAULT false,
    orphaned boolean NOT NULL DEFAULT false,
    CONSTRAINT timeline_state_pkey PRIMARY KEY (timeline_id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2);

COMMENT ON COLUMN timeline_state.swept_generation IS
    'kind.generation + app.generation up to which the sweeper has made this timeline due; both counters only grow under '
    'a row lock, so their sum is at least as great in every later snapshot';
COMMENT ON COLUMN timeline_state.due_at IS 'the one time to look at: when it is due, or when its lease ends';
COMMENT ON COLUMN timeline_state.orphaned IS 'no widget shows it: its next claim collects it';

-- The claim's index and the sweep's index. With the primary key they are all that this table may have.
CREATE INDEX timeline_state_due ON timeline_state (kind_id, lane, due_at);
CREATE INDEX timeline_state_sweep ON timeline_state (kind_id, swept_generation, view_class);

CREATE TABLE timeline_content (
    timeline_id uuid PRIMARY KEY,
    hash uuid NOT NULL,
    revision bigint NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now(),
    content text NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

COMMENT ON COLUMN timeline_content.revision IS 'the claim that stored it';
