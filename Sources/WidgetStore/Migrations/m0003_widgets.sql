-- One placement on one device of one user. A removed widget keeps its row (timeline_id NULL) as the tombstone that an
-- older event must not override.
CREATE TABLE widget (
    app_id int NOT NULL,
    id text COLLATE "C" NOT NULL,
    kind_id int NOT NULL,
    family smallint NOT NULL,
    timeline_id bigint,
    user_id text COLLATE "C" NOT NULL,
    device_id text COLLATE "C" NOT NULL,
    locale text NOT NULL,
    time_zone text NOT NULL,
    configuration text,
    misfits int NOT NULL DEFAULT 0,
    placed_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    PRIMARY KEY (app_id, id)
) WITH (fillfactor = 80);

COMMENT ON COLUMN widget.configuration IS
    'as the person set it, where that is not what its timeline is for: defaults left out, hidden values, display strings';
COMMENT ON COLUMN widget.misfits IS 'number of values that the definition of the kind does not allow any more';
COMMENT ON COLUMN widget.changed_at IS 'time of the latest lifecycle event applied; an older one never overrides it';

-- The audience look-ups. The id comes last so that an audience of very many widgets can be walked in chunks. Kind and
-- timeline are included so that a mark reads the index only: it took 29 instead of 50 µs a request with them.
CREATE INDEX widget_by_user ON widget (app_id, user_id, id) INCLUDE (kind_id, timeline_id) WHERE timeline_id IS NOT NULL;
CREATE INDEX widget_by_device ON widget (app_id, device_id, id) INCLUDE (kind_id, timeline_id)
    WHERE timeline_id IS NOT NULL;
-- Widgets that still show a timeline: asked before the timeline is collected.
CREATE INDEX widget_by_timeline ON widget (timeline_id) WHERE timeline_id IS NOT NULL;
CREATE INDEX widget_misfits ON widget (kind_id) WHERE misfits > 0;
