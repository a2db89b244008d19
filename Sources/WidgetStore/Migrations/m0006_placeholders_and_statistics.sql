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

-- What the reloads of a kind came to, by day (UTC). Every worker process counts in memory and adds its counts here every
-- few seconds. Approximate by design: a process that is killed loses what it has not added yet. No index but the primary
-- key and half of each page left free, so that adding is a HOT update; no key to `kind`, whose row reloads of everyone
-- want for themselves.
CREATE TABLE kind_statistics (
    kind_id int NOT NULL,
    day date NOT NULL,
    requests bigint NOT NULL DEFAULT 0,
    asked bigint NOT NULL DEFAULT 0,
    reloaded bigint NOT NULL DEFAULT 0,
    unchanged bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    deferred bigint NOT NULL DEFAULT 0,
    slept bigint NOT NULL DEFAULT 0,
    released bigint NOT NULL DEFAULT 0,
    bytes_stored bigint NOT NULL DEFAULT 0,
    bytes_spared bigint NOT NULL DEFAULT 0,
    messages_published bigint NOT NULL DEFAULT 0,
    messages_spared bigint NOT NULL DEFAULT 0,
    short_gaps bigint NOT NULL DEFAULT 0,
    single_entries_at_end bigint NOT NULL DEFAULT 0,
    round_hours bigint NOT NULL DEFAULT 0,
    several_links bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (kind_id, day)
) WITH (fillfactor = 50);

COMMENT ON COLUMN kind_statistics.requests IS 'requests to the provider; asked: timelines asked for in them';
COMMENT ON COLUMN kind_statistics.bytes_spared IS 'content that was fetched, found unchanged, and not written';
COMMENT ON COLUMN kind_statistics.short_gaps IS 'fetched timelines with this lint, and so on';
