-- A reload that is neither O(1) nor bounded (everyone with `matching`, an audience of very many widgets): ingest records
-- it here in its transaction, and the sweeper makes its timelines due in paced chunks. Deleted when it is done.
CREATE TABLE sweep (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    predicate uuid NOT NULL,
    app_id int NOT NULL,
    audience smallint NOT NULL,
    audience_id text,
    kind_ids int[] NOT NULL,
    matching text,
    events bigint NOT NULL,
    free boolean NOT NULL,
    started boolean NOT NULL DEFAULT false,
    cursor_kind int NOT NULL DEFAULT 0,
    cursor_timeline uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    cursor_widget text NOT NULL DEFAULT '',
    cause_topic smallint NOT NULL,
    cause_partition int NOT NULL,
    cause_offset bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON COLUMN sweep.audience IS '0 everyone, 1 user, 2 device';
COMMENT ON COLUMN sweep.predicate IS 'hash of app, audience, kinds and matching: equal requests that wait are one sweep';

CREATE UNIQUE INDEX sweep_waiting ON sweep (predicate) WHERE NOT started;
