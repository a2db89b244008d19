-- What is shown where there is no timeline yet: first the kind's placeholder, then a snapshot, which goes when the
-- timeline is stored.
CREATE TABLE snapshot (
    timeline_id uuid PRIMARY KEY,
    revision bigint NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now(),
    entry text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);

COMMENT ON COLUMN snapshot.revision IS 'the claim that stored it';
COMMENT ON COLUMN snapshot.entry IS 'canonical JSON, as an entry lies in a timeline';

-- Placeholders that providers have made for an environment. Without a row, or without content, the manifest's holds.
CREATE TABLE placeholder (
    kind_id int NOT NULL,
    family smallint NOT NULL,
    locale text COLLATE "C" NOT NULL,
    time_zone text COLLATE "C" NOT NULL,
    due_at timestamptz NOT NULL DEFAULT now(),
    asked_at timestamptz NOT NULL DEFAULT now(),
    fetched_at timestamptz,
    claim bigint NOT NULL DEFAULT 0,
    attempts smallint NOT NULL DEFAULT 0,
    content text,
    PRIMARY KEY (kind_id, family, locale, time_zone)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

COMMENT ON COLUMN placeholder.time_zone IS 'empty: the kind does not vary by it';
COMMENT ON COLUMN placeholder.due_at IS 'when to fetch it, or when the lease of a fetch ends; infinity: it is as it should be';
COMMENT ON COLUMN placeholder.asked_at IS 'when a device last moved into the environment, or the definition last changed';
COMMENT ON COLUMN placeholder.claim IS 'counts the fetches begun: what an earlier one brings is dropped';

-- What is to be fetched.
CREATE INDEX placeholder_due ON placeholder (kind_id, due_at) WHERE due_at < 'infinity';
